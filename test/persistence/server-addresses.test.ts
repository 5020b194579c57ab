import t from 'tap'
import { SettingError } from '../../core/setting-error.ts'
import { describeDatabase } from '../../persistence/postgres/database-address.ts'
import { parseDatabaseUrl } from '../../persistence/postgres/database-url.ts'
import { describeRedis, parseRedisUrl } from '../../persistence/redis/redis-address.ts'

/** The addresses of databases in the forms that hosting services hand out. */

const SECRET = 'S3cr3t'

/** Address, where it leads, and the password that is read. */
const DATABASES: readonly (readonly [url: string, where: string, password: string | null])[] = [
  ['postgres://gas:pw@db:5432/gas', 'db:5432/gas', 'pw'],
  ['postgresql://gas:pw@db/gas', 'db:5432/gas', 'pw'],
  ['POSTGRES://gas:pw@db/gas', 'db:5432/gas', 'pw'],
  ['postgres://gas@db', 'db:5432/gas', null],
  [
    'postgresql://u:npg_pw@ep-cool-1.eu-central-1.aws.neon.tech/neondb?sslmode=require&channel_binding=require',
    'ep-cool-1.eu-central-1.aws.neon.tech:5432/neondb',
    'npg_pw',
  ],
  [
    'postgresql://u:pw@ep-cool-1.aws.neon.tech/neondb?options=endpoint%3Dep-cool-1&sslmode=require',
    'ep-cool-1.aws.neon.tech:5432/neondb',
    'pw',
  ],
  ['postgres://u:pw@db/gas?schema=public&connection_limit=5', 'db:5432/gas', 'pw'],
  [
    'postgresql://postgres.abcd:pw@aws-0-eu-central-1.pooler.supabase.com:5432/postgres',
    'aws-0-eu-central-1.pooler.supabase.com:5432/postgres',
    'pw',
  ],
  [
    'postgres://u:pw@/gas?host=/cloudsql/p:eu-west1:i',
    '/cloudsql/p:eu-west1:i, database gas',
    'pw',
  ],
  ['postgres://u:pw@localhost/gas?host=/cloudsql/p:eu:i', '/cloudsql/p:eu:i, database gas', 'pw'],
  ['postgres://u:pw@%2Fcloudsql%2Fp%3Aeu%3Ai/gas', '/cloudsql/p:eu:i, database gas', 'pw'],
  ['postgres:///gas?host=/var/run/postgresql&user=gas', '/var/run/postgresql, database gas', null],
  ['socket:///run/pg?db=gas&user=gas', '/run/pg, database gas', null],
  ['postgres://u:pw@[::1]:5433/gas', '[::1]:5433/gas', 'pw'],
  ['postgres://u:pw@[fd12::1]/gas?application_name=gas', '[fd12::1]:5432/gas', 'pw'],
  [
    'postgres://u:pw@postgres.railway.internal:5432/railway',
    'postgres.railway.internal:5432/railway',
    'pw',
  ],
  ['postgres://u:pw@db/gas?options=-c%20search_path%3Dgas', 'db:5432/gas', 'pw'],
  [
    'postgres://u:pw@db/gas?connect_timeout=10&target_session_attrs=read-write',
    'db:5432/gas',
    'pw',
  ],
  ['postgres://u:p%40ss%2Fw@db/gas', 'db:5432/gas', 'p@ss/w'],
  ['postgres://u:p@ss/w@db:5432/gas', 'db:5432/gas', 'p@ss/w'],
  ['postgres://u1:s3cr/et@127.0.0.1:5432/gas', '127.0.0.1:5432/gas', 's3cr/et'],
  ['postgres://u:a:b#c?d=e@db/gas', 'db:5432/gas', 'a:b#c?d=e'],
  ['postgres://u:100%@db/gas', 'db:5432/gas', '100%'],
  ['postgres://u:q@@db/gas', 'db:5432/gas', 'q@'],
  ['postgres://u:12/34@db/gas', 'db:5432/gas', '12/34'],
  ['postgres://u:a b\'c"d$e&f=g+h@db/gas', 'db:5432/gas', 'a b\'c"d$e&f=g+h'],
]

t.test('DATABASE_URL is read in the forms of hosting services, with any password', async (t) => {
  for (const [url, where, password] of DATABASES) {
    const target = parseDatabaseUrl(url)
    t.equal(describeDatabase(target), where, url)
    t.equal(target.password ?? null, password, url)
  }
  t.equal(parseDatabaseUrl('postgres://u:p@db/gas?options=-c%20a%3Db').options, '-c a=b')
})

const REFUSED_DATABASES: readonly (readonly [url: string, says: RegExp])[] = [
  [`mysql://root:${SECRET}@db`, /must start with postgres:\/\//],
  [`"postgres://u:${SECRET}@db/gas"`, /has quotes around it/],
  [`psql 'postgres://u:${SECRET}@db/gas'`, /has quotes around it/],
  [`host=db user=u password=${SECRET}`, /must start with postgres:\/\//],
  [`jdbc:postgresql://db/gas?password=${SECRET}`, /must start with postgres:\/\//],
  [`postgresql+asyncpg://u:${SECRET}@db/gas`, /must start with postgres:\/\//],
  [`postgres://u:${SECRET}%zz%41@db/gas`, /password that can be read in two ways/],
  [`postgres://u:${SECRET}@db/gas?application_name=a@b`, /password that can be read in two ways/],
  [`postgres://u:${SECRET}@db:99999/gas`, /port 99999/],
  [`postgres://u:${SECRET}@db:5432:5432/gas`, /must be a postgres:\/\/host:port address/],
  [`postgres://u:${SECRET}@a:5432,b:5432/gas`, /names several hosts/],
  [`postgres://u:${SECRET}@db/gas?pgbouncer=true`, /pooler in transaction mode/],
  [`postgres://u:${SECRET}@db/gas?schema=other`, /names the schema other: write options=/],
  [`postgres://u:${SECRET}@db/gas?statment_timeout=5`, /has the parameter statment_timeout/],
  [`postgres://u:${SECRET}@db/gas?sslmode=maybe`, /sslmode=maybe: it must be disable, allow/],
  [
    `postgres://u:${SECRET}@db/gas?sslmode=verify-ca&sslrootcert=/no`,
    /sslrootcert=\/no, which cannot/,
  ],
  [
    `postgres://u:${SECRET}@db/gas?target_session_attrs=standby`,
    /asks for a server that is standby/,
  ],
  [`postgres://u:${SECRET}@db/a/b`, /must end with one name/],
  [`postgres://u:${SECRET}@db/gas#frag`, /must be a postgres:\/\/host:port address/],
]

const saysOf = (parse: (url: string) => unknown, url: string): string => {
  try {
    parse(url)
    return 'accepted'
  } catch (error) {
    if (error instanceof SettingError) return error.message
    throw error
  }
}

t.test(
  'a DATABASE_URL that cannot be used is refused in one line without its password',
  async (t) => {
    for (const [url, says] of REFUSED_DATABASES) {
      const line = saysOf(parseDatabaseUrl, url)
      t.match(line, says, url)
      t.match(line, /^DATABASE_URL [^\n]+$/, url)
      t.notOk(line.includes(SECRET), url)
    }
  },
)

t.test('every sslmode has its meaning for both drivers', async (t) => {
  const tls = (mode: string, host = 'db') => {
    const target = parseDatabaseUrl(`postgres://u:p@${host}/gas${mode === '' ? '' : `?${mode}`}`)
    return 'tls' in target ? target.tls : null
  }
  for (const mode of ['sslmode=disable', 'ssl=false', 'ssl=0']) t.equal(tls(mode), 'disable', mode)
  for (const mode of ['', 'sslmode=prefer', 'sslmode=allow']) t.equal(tls(mode), 'prefer', mode)
  for (const mode of [
    'sslmode=require',
    'ssl=true',
    'sslmode=no-verify',
    'sslaccept=accept_invalid_certs',
  ])
    t.strictSame(tls(mode), { rejectUnauthorized: false }, mode)
  for (const mode of ['sslmode=verify-full', 'sslrootcert=system', 'sslaccept=strict'])
    t.strictSame(tls(mode), {}, mode)
  t.match(tls('sslmode=verify-ca'), { checkServerIdentity: Function })
  for (const host of ['localhost', '127.0.0.1', '[::1]']) t.equal(tls('', host), 'disable', host)
})

const REDISES: readonly (readonly [url: string, where: string, login: object])[] = [
  ['redis://cache', 'cache:6379', { db: 0 }],
  ['redis://cache:6380/2', 'cache:6380', { db: 2 }],
  ['redis://:pw@cache:6379', 'cache:6379', { password: 'pw' }],
  [
    'redis://default:pw@redis.railway.internal:6379',
    'redis.railway.internal:6379',
    { username: 'default', password: 'pw' },
  ],
  ['rediss://default:pw@eu1.upstash.io:6379', 'eu1.upstash.io:6379', { tls: {}, password: 'pw' }],
  [
    'rediss://:pw@ec2.amazonaws.com:1?ssl_cert_reqs=none',
    'ec2.amazonaws.com:1',
    { tls: { rejectUnauthorized: false } },
  ],
  ['valkey://cache/', 'cache:6379', { db: 0 }],
  ['redis://[::1]:6379/1', '[::1]:6379', { host: '::1', db: 1 }],
  ['redis://:p@s/s#1?@cache', 'cache:6379', { password: 'p@s/s#1?' }],
  ['redis://cache?db=3', 'cache:6379', { db: 3 }],
  ['unix:///run/redis.sock?db=1', '/run/redis.sock', { db: 1 }],
  ['redis+unix://u:pw@/run/redis.sock', '/run/redis.sock', { username: 'u', password: 'pw' }],
]

t.test('REDIS_URL is read in the forms of hosting services', async (t) => {
  for (const [url, where, login] of REDISES) {
    const address = parseRedisUrl(url)
    t.equal(describeRedis(address), where, url)
    t.match(address, login, url)
  }
})

t.test('a REDIS_URL that cannot be used is refused in one line without its password', async (t) => {
  const refused: readonly (readonly [url: string, says: RegExp])[] = [
    [`tcp://:${SECRET}@cache`, /must start with redis:\/\//],
    [`cache:6379`, /must start with redis:\/\//],
    [`redis-cli -u redis://:${SECRET}@cache`, /must start with redis:\/\//],
    [`redis://:${SECRET}@a,b`, /names several hosts/],
    [`redis://:${SECRET}@cache/one`, /must end with the number of a database/],
    [`redis://:${SECRET}@cache:70000`, /port 70000/],
    [`unix://cache/run/redis.sock`, /must be unix:\/\/\/path/],
  ]
  for (const [url, says] of refused) {
    const line = saysOf(parseRedisUrl, url)
    t.match(line, says, url)
    t.match(line, /^REDIS_URL [^\n]+$/, url)
    t.notOk(line.includes(SECRET), url)
  }
})

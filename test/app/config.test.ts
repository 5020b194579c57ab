import { randomBytes } from 'node:crypto'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect, promisify } from 'node:util'
import t from 'tap'
import { ConfigError, loadConfig } from '../../app/config.ts'
import { ensureMasterKey } from '../../app/master-key.ts'
import { SecretString } from '../../app/secret-string.ts'
import { EnvironmentSettingsSchema } from '../../app/environment-settings-schema.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'

const key = randomBytes(32).toString('base64')
const production = {
  NODE_ENV: 'production',
  DATABASE_URL: 'postgres://gas:pw@db/gas',
  MASTER_KEY: key,
  PUBLIC_URL: 'https://gas.example',
}

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

t.test('an empty environment gives a complete embedded configuration', async (t) => {
  const config = loadConfig({})
  t.match(config, {
    production: false,
    port: 8402,
    host: '127.0.0.1',
    publicUrl: null,
    databaseUrl: null,
    redisUrl: null,
    redis: 'auto',
    trustProxy: false,
    promoTransferable: true,
    rateLimits: true,
    freeTierPerDay: 10,
    bulkOnboardMax: 20,
    ssrfAllow: '',
  })
  t.equal(config.starterCredits, 500_000n)
  t.ok(Object.isFrozen(config))
})

t.test('an empty variable counts as unset', async (t) => {
  t.match(loadConfig({ DATABASE_URL: '', PORT: ' ' }), { databaseUrl: null, port: 8402 })
})

t.test('amounts are exact and a seventh decimal is refused', async (t) => {
  t.equal(loadConfig({ STARTER_CREDITS_USDC: '1234567.000001' }).starterCredits, 1_234_567_000_001n)
  t.match(problemsOf({ STARTER_CREDITS_USDC: '0.0000001' }), [
    /STARTER_CREDITS_USDC must be an amount/,
  ])
})

t.test('what no part of the station could use is named, and no secret is shown', async (t) => {
  const ours = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
  const order = '0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
  for (const [name, bad, good] of [
    ['SETTLER_PRIVATE_KEY', order, `0x${'0'.repeat(63)}1`],
    ['SETTLER_PRIVATE_KEY', `0x${'0'.repeat(64)}`, `0x${'7'.repeat(64)}`],
    ['TREASURY_ADDRESS', ours.replace('Ef1B', 'eF1B'), ours],
    ['TREASURY_ADDRESS', `0x${'0'.repeat(40)}`, ours.toLowerCase()],
    ['MAIL_FROM_AGENTS', 'X <GAS-STATION@127.0.0.1>', 'agents@other.test'],
    ['SSRF_ALLOW', '127.0.0.1:99999', '127.0.0.1:1-65535'],
    ['SSRF_ALLOW', '127.0.0.1:0', '[::1]:8080'],
    ['OPERATOR_TOKEN', 'é'.repeat(16), 'x'.repeat(16)],
    ['BRAVE_API_KEY', 'clé', 'key'],
  ] as const) {
    const [problem = '', ...others] = problemsOf({ [name]: bad })
    t.match(problem, new RegExp(`^${name} `), `${name} ${bad}`)
    t.strictSame(others, [])
    if (/KEY|TOKEN/.test(name)) t.notOk(problem.includes(bad.replace('0x', '')))
    t.strictSame(problemsOf({ [name]: good }), [], `${name} ${good}`)
  }
})

t.test('all configuration problems are reported at once with their values', async (t) => {
  const problems = problemsOf({
    PORT: '80a',
    LOG_LEVEL: 'loud',
    RATE_LIMITS: 'maybe',
    REDIS_URL: 'tcp://x',
  })
  t.strictSame([...problems].sort(), [
    'LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent, not "loud"',
    'PORT must be a whole number from 0 to 65535, not "80a"',
    'RATE_LIMITS must be one of on, off, not "maybe"',
    'REDIS_URL must start with redis:// or rediss://',
  ])
})

t.test('a refused secret is not printed', async (t) => {
  const env = {
    MASTER_KEY: 'tooshort',
    OPERATOR_TOKEN: 'letmein',
    DATABASE_URL: 'mysql://root:pw@db',
  }
  const problems = problemsOf(env)
  t.equal(problems.length, 3)
  for (const value of Object.values(env)) t.notOk(problems.join().includes(value))
})

t.test('a secret is printed only when it is revealed', async (t) => {
  const { masterKey } = loadConfig(production)
  t.equal(masterKey?.reveal(), key)
  const shown = [
    String(masterKey),
    JSON.stringify({ masterKey }),
    inspect({ masterKey }, { showHidden: true }),
  ]
  for (const text of shown) {
    t.match(text, /\[secret\]/)
    t.notOk(text.includes(key))
  }
})

t.test('the inspector is off in production unless it is set', async (t) => {
  t.equal(loadConfig({}).inspector, true)
  t.equal(loadConfig({ INSPECTOR: 'off' }).inspector, false)
  t.equal(loadConfig(production).inspector, false)
  t.equal(loadConfig({ ...production, INSPECTOR: 'on' }).inspector, true)
})

t.test('production starts with its three settings and refuses each one missing', async (t) => {
  t.match(loadConfig(production), { production: true, promoTransferable: false })
  for (const name of ['DATABASE_URL', 'MASTER_KEY', 'PUBLIC_URL']) {
    t.strictSame(problemsOf({ ...production, [name]: '' }), [`${name} is required in production`])
  }
  t.equal(problemsOf({ NODE_ENV: 'production' }).length, 3)
})

t.test('production rejects private addresses for tools', async (t) => {
  const allowed = { SSRF_ALLOW: '127.0.0.1:21500-21599,127.0.0.1:80' }
  t.equal(loadConfig(allowed).ssrfAllow, allowed.SSRF_ALLOW)
  t.match(problemsOf({ SSRF_ALLOW: 'localhost:80' }), [/^SSRF_ALLOW must be address:port/])
  t.strictSame(problemsOf({ ...production, ...allowed }), ['SSRF_ALLOW is refused in production'])
})

t.test('proxies are trusted by number or by address, never all of them', async (t) => {
  t.equal(loadConfig({ TRUST_PROXY: '1' }).trustProxy, 1)
  t.equal(loadConfig({ TRUST_PROXY: '0' }).trustProxy, false)
  const ranges = loadConfig({ TRUST_PROXY: '10.0.0.0/8, ::1' }).trustProxy
  t.strictSame(ranges, ['10.0.0.0/8', '::1'])
  for (const value of ['true', 'nginx', '10.0.0.0/33', '10.0.0.0/8/8', '1.2.3.4,']) {
    t.match(problemsOf({ TRUST_PROXY: value }), [/^TRUST_PROXY must be a number of proxies/], value)
  }
})

t.test('the trailing slash of the public URL is removed', async (t) => {
  t.equal(loadConfig({ PUBLIC_URL: 'https://gas.example/' }).publicUrl, 'https://gas.example')
})

t.test('every setting has a description and a constraint', async (t) => {
  for (const [name, schema] of Object.entries(EnvironmentSettingsSchema.properties)) {
    t.match(schema, { description: /\.$/, must: String }, name)
    t.ok('default' in schema || 'unset' in schema, `${name} has a default`)
  }
})

t.test('the master key is generated once and only its owner can read it', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const made = ensureMasterKey(dataDir)
  t.type(made, SecretString)
  t.equal(Buffer.from(made.reveal(), 'base64').length, 32)
  t.equal(ensureMasterKey(dataDir).reveal(), made.reveal())
  t.equal(statSync(join(dataDir, 'master.key')).mode & 0o777, 0o600)
  t.strictSame(readdirSync(dataDir), ['master.key'])
})

t.test('processes that start concurrently share one master key', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const module = JSON.stringify(join(REPOSITORY_ROOT, 'app/master-key.ts'))
  const script = `import(${module}).then(({ ensureMasterKey }) =>
    process.stdout.write(ensureMasterKey(${JSON.stringify(dataDir)}).reveal()))`
  const run = () => promisify(execFile)(process.execPath, ['--import', 'tsx', '-e', script])
  const keys = await Promise.all([run(), run(), run(), run()])
  t.equal(new Set(keys.map(({ stdout }) => stdout)).size, 1)
  t.equal(keys[0]?.stdout, readFileSync(join(dataDir, 'master.key'), 'utf8').trim())
})

t.test('a damaged master key is refused instead of replaced', async (t) => {
  const dataDir = t.testdir({ 'master.key': '' })
  t.throws(() => ensureMasterKey(dataDir), { name: 'ConfigError' })
  writeFileSync(join(dataDir, 'master.key'), 'c2hvcnQ=')
  t.throws(() => ensureMasterKey(dataDir), { name: 'ConfigError' })
})

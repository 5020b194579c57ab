import t from 'tap'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import {
  eventually,
  startTestMailServer,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

const mail = await startTestMailServer(t)
const main = await startInProcessTestStation(t, { SMTP_URL: mail.url })
const ORIGIN = { origin: 'http://gas.test' }

/** A browser: its cookie, and the token that its page has read. */
interface Browser {
  readonly cookie: string
  readonly token: string
}

/** Signs in; with `from` in a browser that has a session, and with its token if `adds`. */
async function enter(proof: object, from?: Browser, adds = false): Promise<Browser> {
  const token = adds ? { 'x-csrf-token': from?.token ?? '' } : {}
  const headers = { ...ORIGIN, cookie: from?.cookie ?? '', ...token }
  const reply = await main.ask('POST', '/owner/session', { json: proof, headers })
  t.equal(reply.status, 200, reply.text)
  const [pair = ''] = String(reply.headers['set-cookie']).split(';')
  const { body } = await main.ask('GET', '/owner/session', { headers: { cookie: pair } })
  return { cookie: pair, token: String(body['csrf_token']) }
}
const signIn = ({ key }: TestAgent) => enter({ api_key: key })
const agentsOf = async ({ cookie }: Browser) => {
  const { body } = await main.ask('GET', '/owner/session', { headers: { cookie } })
  return (body['agents'] as { agent_id: string }[]).map(({ agent_id: id }) => id)
}
/** A request of the page. */
const act = (
  { cookie, token }: Browser,
  agentId: string,
  method: string,
  path: string,
  json?: object,
  headers: Record<string, string> = {},
) =>
  main.ask(method, path, {
    ...(json === undefined ? {} : { json }),
    headers: { ...ORIGIN, cookie, 'x-csrf-token': token, 'x-owner-agent': agentId, ...headers },
  })
const REFUSED = { status: 401, body: { code: 'unauthenticated' } }

t.test('only the key of an owner signs in, and only on a page of this station', async (t) => {
  const her = await main.onboard()
  const bound = await createBackpackBoundKey(main, her, await createAgentBackpack(main, her))
  const capped = await main.ask('POST', '/api/keys', { key: her.key, json: { cap_usdc: 1 } })
  const offer = (key: unknown, headers = ORIGIN) =>
    main.ask('POST', '/owner/session', { json: { api_key: key }, headers })
  t.match(await offer('gas_wrong'), REFUSED)
  for (const key of [bound.key, capped.body.api_key])
    t.match(await offer(key), { status: 403, body: { code: 'insufficient_scope' } })
  for (const origin of ['https://evil.example', 'null', 'http://gas.test.evil.example'])
    t.match(await offer(her.key, { origin }), { status: 403, body: { code: 'origin_not_allowed' } })
  const bare = await main.ask('POST', '/owner/session', { json: { api_key: her.key } })
  t.match(bare, { status: 403 }, 'a browser always names its page')
  const { headers } = await offer(her.key)
  const cookie = String(headers['set-cookie'])
  t.match(cookie, /^gas_owner=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/)
  const [token = ''] = cookie.slice('gas_owner='.length).split(';')
  const stored = await main.sql`select hash from owner_sessions`
  t.notMatch(JSON.stringify([...stored]), token, 'the database has its hash only')
})

t.test('behind https the cookie is secure, and of this host', async (t) => {
  const secure = await startInProcessTestStation(
    t,
    { PUBLIC_URL: 'https://gas.example' },
    {
      database: main.database,
    },
  )
  const her = await main.onboard()
  const { headers } = await secure.ask('POST', '/owner/session', {
    json: { api_key: her.key },
    headers: { origin: 'https://gas.example' },
  })
  t.match(headers['set-cookie'], /^__Host-gas_owner=.*; Path=\/; .*; Secure$/)
})

t.test(
  'a session acts as its key, on routes that list it, with the token of its page',
  async (t) => {
    const her = await main.onboard()
    const other = await main.onboard()
    const session = await signIn(her)
    const me = await act(session, her.id, 'GET', '/api/agent/me')
    t.match(me, { status: 200, body: { agent_id: her.id } })
    t.match(await act(session, her.id, 'POST', '/api/agent/freeze', {}), { body: { frozen: true } })
    t.match(await main.call(her, 'hive_trending'), { status: 403 })
    t.match(await act(session, her.id, 'POST', '/api/agent/unfreeze', {}), { status: 200 })

    t.match(await act(session, other.id, 'GET', '/api/agent/me'), REFUSED, 'another agent')
    for (const [method, path] of [
      ['POST', '/api/wallet/export'],
      ['POST', '/api/agent/send'],
      ['GET', '/api/wallet'],
      ['POST', '/api/refuel'],
    ] as const) {
      const { status, text } = await act(session, her.id, method, path, {
        confirm: true,
        tool: 'deep_search',
        query: 'x',
      })
      t.notOk(status < 300, `${path} ${text}`)
    }
    const forged = { code: 'csrf_token_invalid' }
    const freeze = (headers: Record<string, string>, browser = session) =>
      act(browser, her.id, 'POST', '/api/agent/freeze', {}, headers)
    t.match(await freeze({ 'x-csrf-token': '' }), { status: 403, body: forged })
    const { token } = await signIn(her)
    t.match(
      await freeze({ 'x-csrf-token': token }),
      { status: 403, body: forged },
      'another session',
    )
    const read = await act(session, her.id, 'GET', '/api/agent/me', undefined, {
      'x-csrf-token': '',
    })
    t.match(read, { status: 403, body: forged }, 'reads too')
    t.match(await freeze({ origin: 'https://evil.example' }), {
      body: { code: 'origin_not_allowed' },
    })
    t.match(await freeze({ 'sec-fetch-site': 'cross-site' }), { status: 403 })
    t.match(await freeze({}, { ...session, cookie: `${session.cookie}x` }), { status: 403 })
    const bare = await main.ask('GET', '/api/agent/me', { headers: { cookie: session.cookie } })
    t.match(bare, REFUSED, 'the cookie alone is nothing')
    const [mine] = await main.sql`select state->>'value' as state from actors where id = ${her.id}`
    t.equal(mine?.['state'], 'healthy', 'nothing of it was done')
  },
)

t.test(
  'several agents share a session; it ends at its end, with its keys, or by signing out',
  async (t) => {
    const [her, other] = [await main.onboard(), await main.onboard()]
    const first = await signIn(her)
    const session = await enter({ api_key: other.key }, first, true)
    t.not(session.cookie, first.cookie, 'a cookie that somebody planted is worth nothing')
    t.match(await act(first, her.id, 'GET', '/api/agent/me'), REFUSED, 'the old one has ended')
    t.strictSame(await agentsOf(session), [her.id, other.id])
    t.match(await act(session, other.id, 'GET', '/api/credits/balance'), { status: 200 })

    const spare = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
    const twin = await enter({ api_key: spare.body.api_key })
    const pack = await createAgentBackpack(main, her)
    const bound = await createBackpackBoundKey(main, her, pack)
    await main.ask('DELETE', `/api/keys/${bound.keyId}`, { key: her.key })
    t.match(await agentsOf(twin), [her.id], 'a bound key opens none')
    await main.ask('POST', '/api/keys/rotate', { key: her.key, json: { grace_seconds: 60 } })
    t.match(await act(session, her.id, 'GET', '/api/agent/me'), REFUSED, 'a rotation ends it')
    t.strictSame(await agentsOf(session), [other.id])
    t.strictSame(await agentsOf(twin), [], 'and the sessions of other keys of the agent')

    const stay = await act(session, other.id, 'GET', '/api/agent/me')
    t.equal(stay.status, 200)
    const headers = { ...ORIGIN, cookie: session.cookie }
    t.match(await main.ask('DELETE', '/owner/session', { headers }), { status: 403 }, 'no token')
    const out = await main.ask('DELETE', '/owner/session', {
      headers: { ...headers, 'x-csrf-token': session.token },
    })
    t.match(out.headers['set-cookie'], /^gas_owner=; .*Max-Age=0$/)
    t.match(await act(session, other.id, 'GET', '/api/agent/me'), REFUSED)

    const late = await signIn(other)
    await main.sql`update owner_sessions set expires_at = now() - interval '1 second'`
    t.match(await act(late, other.id, 'GET', '/api/agent/me'), REFUSED, 'it has ended')
  },
)

t.test(
  'a session that somebody planted brings no agent into the session of an owner',
  async (t) => {
    const [owner, thief] = [await main.onboard(), await main.onboard()]
    const planted = await signIn(thief)
    const session = await enter({ api_key: owner.key }, planted)
    t.strictSame(await agentsOf(session), [owner.id], 'only what the key proves')
    t.match(await act(session, thief.id, 'GET', '/api/agent/me'), REFUSED)
    t.match(
      await act(planted, thief.id, 'GET', '/api/agent/me'),
      REFUSED,
      'the planted one has ended',
    )

    const again = await signIn(thief)
    const forged = { ...again, token: session.token }
    const headers = { ...ORIGIN, cookie: forged.cookie, 'x-csrf-token': forged.token }
    const json = { api_key: owner.key }
    t.match(await main.ask('POST', '/owner/session', { json, headers }), {
      status: 403,
      body: { code: 'csrf_token_invalid' },
    })
    t.match(await act(again, thief.id, 'GET', '/api/agent/me'), { status: 200 }, 'nothing was done')
  },
)

t.test('a confirmed address gets a link that opens once', async (t) => {
  const her = await main.onboard()
  const address = 'Owner@Agents.example'
  const linkOf = async (count: number) => {
    await eventually(() => mail.letters.length >= count, `letter ${count}`)
    const text = (mail.letters[count - 1]?.raw ?? '').replace(/=\r?\n/g, '').replaceAll('=3D', '=')
    const [, code = ''] = /#link=([\w-]+)/.exec(text) ?? []
    return code
  }
  const request = (email: string) =>
    main.ask('POST', '/owner/links', { json: { email }, headers: ORIGIN })
  t.match(await request(address), { status: 200, body: { accepted: true } })
  const json = { contact_email: address }
  const asked = await main.ask('POST', '/api/agent/contact-email', { key: her.key, json })
  t.match(asked, { status: 200, body: { contact_email_confirmed: false, sent: true } })
  const unconfirmed = await request(address)
  t.match(unconfirmed, { status: 200, body: { accepted: true } }, 'the answer tells nothing')
  const code = await linkOf(1)
  const opened = await enter({ link: code })
  t.strictSame(await agentsOf(opened), [her.id])
  const again = { json: { link: code }, headers: ORIGIN }
  t.match(await main.ask('POST', '/owner/session', again), REFUSED, 'a link opens once')
  const me = await main.ask('GET', '/api/agent/me', { key: her.key })
  t.match(me.body, { contact_email: address, contact_email_confirmed: true })

  await request(address.toUpperCase())
  const planted = await signIn(await main.onboard())
  const session = await enter({ link: await linkOf(2) }, planted, true)
  t.strictSame(await agentsOf(session), [her.id], 'a link adds to no session')
  t.match(await act(session, her.id, 'POST', '/api/agent/freeze', {}), { body: { frozen: true } })
  for (let more = 0; more < 4; more += 1) await request(address)
  await request('stranger@agents.example')
  await eventually(() => mail.letters.length >= 6, 'letter 6')
  const [links] = await main.sql`select count(*)::int as n from owner_links`
  t.equal(links?.['n'], 6, 'five an hour beside the confirmation, and none to strangers')
  const [early] = await main.sql`
    select count(*)::int as n from owner_links where expires_at < created_at + interval '1 hour'`
  t.equal(early?.['n'], 0, 'whoever uses up the links of the hour has sent links that work in it')

  const moved = { contact_email: 'new@agents.example' }
  await main.ask('POST', '/api/agent/contact-email', { key: her.key, json: moved })
  const known = await main.ask('GET', '/api/agent/me', { key: her.key })
  t.match(known.body, { contact_email_confirmed: false }, 'another address is another owner')
  await main.sql`update owner_links set created_at = created_at - interval '2 hours'`
  await request(address)
  const [open] = await main.sql`
    select count(*)::int as n from owner_links where agent_id is null and used_at is null
      and created_at > now() - interval '1 hour'`
  t.equal(open?.['n'], 0, 'the old address opens nothing')
})

t.test(
  'an address gives no more rights than the key that named it, and ends with it',
  async (t) => {
    const her = await main.onboard()
    const name = (email: string, key: string) =>
      main.ask('POST', '/api/agent/contact-email', { key, json: { contact_email: email } })
    const make = async (json: object) =>
      String((await main.ask('POST', '/api/keys', { key: her.key, json })).body['api_key'])
    for (const json of [{ scopes: ['keys'] }, { expires_in_seconds: 600 }])
      t.match(await name('less@agents.example', await make(json)), {
        status: 403,
        body: { code: 'insufficient_scope' },
      })

    const leaked = await make({})
    const revoked = async (key: string) => {
      const json = { compromised: true }
      t.match(await main.ask('POST', '/api/keys/rotate', { key, json }), { status: 200 })
    }
    // Letters of the test before may still arrive: only those to this address count.
    const codeOf = async (at: number) => {
      const letters = () => mail.letters.filter(({ raw }) => raw.includes('thief@agents.example'))
      await eventually(() => letters().length > at, `letter ${at} to the thief`)
      const text = (letters()[at]?.raw ?? '').replace(/=\r?\n/g, '').replaceAll('=3D', '=')
      return /#link=([\w-]+)/.exec(text)?.[1]
    }
    await name('thief@agents.example', leaked)
    const sent = await codeOf(0)
    await revoked(leaked)
    const late = { json: { link: sent }, headers: ORIGIN }
    t.match(await main.ask('POST', '/owner/session', late), REFUSED, 'a link that waits')

    const second = await make({})
    await name('thief@agents.example', second)
    await enter({ link: await codeOf(1) })
    await revoked(second)
    const json = { email: 'thief@agents.example' }
    await main.ask('POST', '/owner/links', { json, headers: ORIGIN })
    t.match((await main.ask('GET', '/api/agent/me', { key: her.key })).body, {
      contact_email_confirmed: false,
    })
    const [open] = await main.sql`
    select count(*)::int as n from owner_links where email = ${json.email} and agent_id is null`
    t.equal(open?.['n'], 0, 'and one that was confirmed')
  },
)

t.test(
  'links of one address are counted at once, and confirmations use up none that sign in',
  async (t) => {
    const email = 'many@agents.example'
    const agents = await Promise.all(Array.from({ length: 8 }, () => main.onboard()))
    const asked = await Promise.all(
      agents.map(({ key }) =>
        main.ask('POST', '/api/agent/contact-email', { key, json: { contact_email: email } }),
      ),
    )
    const [named] = await main.sql`
      select count(*)::int as n from agents where contact_email = ${email}`
    t.equal(named?.['n'], 5, 'an address without a link left is not set')
    t.equal(asked.filter(({ status }) => status === 200).length, 5)
    t.equal(asked.filter(({ status }) => status === 429).length, 3)

    const nameFrom = (key: string, from: string, contact_email = email) =>
      main.ask('POST', '/api/agent/contact-email', {
        key,
        json: { contact_email },
        headers: { 'x-forwarded-for': from },
      })
    const hers = await main.onboard()
    t.match(await nameFrom(hers.key, '192.0.2.77'), { status: 200 }, 'who had none keeps one')
    t.match(
      await nameFrom(hers.key, '192.0.2.77'),
      { status: 429, body: { limit_source: 'rate.owner_links' } },
      'and one only',
    )
    const fleet = await Promise.all(Array.from({ length: 7 }, () => main.onboard()))
    const other = 'other@agents.example'
    const site = await Promise.all(
      fleet.map(({ key }, at) => nameFrom(key, `2001:db8:7:${at}::1`, other)),
    )
    t.equal(site.filter(({ status }) => status === 200).length, 5, 'five of one network')
    t.match(site.find(({ status }) => status === 429)?.body, { per: 'network' })
    t.match(await nameFrom(hers.key, '192.0.2.77', other), { status: 200 })
  },
)

t.test('an agent cannot have the station write to any number of strangers', async (t) => {
  const her = await main.onboard()
  const name = (at: number, key = her.key) => {
    const json = { contact_email: `stranger-${at}@agents.example` }
    return main.ask('POST', '/api/agent/contact-email', { key, json })
  }
  const statuses = []
  for (let at = 0; at < 8; at += 1) statuses.push((await name(at)).status)
  // Neither another key nor its end gives it more.
  const spare = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
  for (let at = 8; at < 10; at += 1)
    statuses.push((await name(at, String(spare.body['api_key']))).status)
  await main.ask('DELETE', `/api/keys/${String(spare.body['key_id'])}`, { key: her.key })
  t.strictSame(new Set(statuses), new Set([200]))
  t.match(await name(10), {
    status: 429,
    body: { code: 'rate_limited', limit_source: 'rate.owner_confirmations', limit: 10 },
  })
  const me = await main.ask('GET', '/api/agent/me', { key: her.key })
  t.equal(me.body['contact_email'], 'stranger-9@agents.example', 'the refused one is not set')
  const other = await main.onboard()
  t.match(await name(10, other.key), { status: 200 }, 'another agent has its own')
})

t.test('spending is listed by day and tool, and adds up', async (t) => {
  const her = await main.onboard()
  for (let at = 0; at < 3; at += 1) await main.call(her, 'hive_trending', { limit: 3 })
  await main.call(her, 'strategy_publish', { title: 'x', description: 'x' })
  const session = await signIn(her)
  const { body } = await act(session, her.id, 'GET', '/api/agent/spending?days=2')
  const day = String(body['to'])
  t.match(body, { complete: true, calls: 4, spent_usdc: 0.065 })
  t.strictSame(body['rows'], [
    { day, tool: 'strategy_publish', calls: 1, spent_usdc: 0.05 },
    { day, tool: 'hive_trending', calls: 3, spent_usdc: 0.015 },
  ])
  const bound = await createBackpackBoundKey(main, her, await createAgentBackpack(main, her))
  await main.call(bound, 'hive_trending', { limit: 3 })
  const own = await main.ask('GET', '/api/agent/spending', { key: bound.key })
  t.match(own.body, { calls: 1, spent_usdc: 0.005 }, 'a bound key sees its Backpack')
})

t.test('the ledger is sound', () => main.verify())

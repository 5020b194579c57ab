import t from 'tap'
import { deriveEncryptionKey } from '../../../core/key-derivation-and-encryption.ts'
import { fromUsdc } from '../../../core/money.ts'
import { newApiKey, newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../../../domain/api-key-spending-limits.ts'
import { createBackpackClipboardStore } from '../../../persistence/agents/backpack-clipboard-store.ts'
import { createKeyringStore } from '../../../persistence/agents/backpack-keyring-store.ts'
import { toApiKeyRow } from '../../../persistence/agents/api-key-store.ts'
import {
  createAgentProfileStore,
  toAgentRow,
} from '../../../persistence/agents/agent-profile-store.ts'
import { deriveSubkey } from '../../../core/key-derivation-and-encryption.ts'
import {
  createTestServer,
  TEST_MASTER_KEY,
} from '../../support/http/test-fastify-server-with-custom-routes.ts'

const at = new Date('2026-11-21T10:00:00Z')
const AGENT = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'

t.test('a keyring returns a secret only to its own Backpack and name', async (t) => {
  const { sql } = await createTestServer(t)
  const keyring = createKeyringStore(sql, deriveEncryptionKey(TEST_MASTER_KEY, 'keyring'))
  const place = { agentId: AGENT, backpackId: 'bp_1', name: 'API' }
  const put = (name: string, secret: string, most = 2) =>
    sql.begin((tx) => keyring.put(tx, { ...place, name }, secret, ['api.test'], at, most))
  await put('API', 'sk-123')
  t.same(await keyring.reveal(place), { secret: 'sk-123', hosts: ['api.test'] })
  const [row] = await sql<{ sealed: Buffer }[]>`select sealed from keyring`
  t.notOk(row?.sealed.includes('sk-123'))
  await put('API', 'sk-456')
  t.match(await keyring.reveal(place), { secret: 'sk-456' })
  await sql`update keyring set backpack_id = 'bp_2'`
  await t.rejects(keyring.reveal({ ...place, backpackId: 'bp_2' }), 'a moved row does not open')
  await put('A', '1')
  await put('B', '2')
  t.equal(await put('C', '3'), null, 'and it has an end')
  t.same(
    (await keyring.listOf('bp_1')).map(({ name }) => name),
    ['A', 'B'],
  )
  t.equal(await sql.begin((tx) => keyring.remove(tx, 'bp_1', 'A')), true)
  t.equal(await sql.begin((tx) => keyring.remove(tx, 'bp_1', 'A')), false)
})

t.test('a clipboard stores any JSON until it expires', async (t) => {
  const { sql } = await createTestServer(t)
  const clipboard = createBackpackClipboardStore(sql)
  const later = new Date(at.getTime() + 60_000)
  const put = (key: string, value: unknown, expiresAt: Date | null = null, updatedAt = at) =>
    sql.begin((tx) =>
      clipboard.put(
        tx,
        { agentId: AGENT, backpackId: 'bp_1' },
        { key, value, expiresAt, updatedAt },
        3,
      ),
    )
  for (const value of [null, 0, '', 'text', [1, [2]], { a: { b: null } }]) {
    await put('k', value)
    t.same((await clipboard.find('bp_1', 'k', at))?.value, value)
  }
  await put('short', 1, later)
  t.ok(await clipboard.find('bp_1', 'short', at))
  t.equal(await clipboard.find('bp_1', 'short', later), null)
  t.equal(await clipboard.find('bp_2', 'k', at), null)
  await put('third', 3)
  t.equal(await put('fourth', 4), false)
  t.equal(await put('fourth', 4, null, later), true, 'an expired entry makes room')
  t.same(
    (await clipboard.listOf('bp_1', later, 2, 'fourth')).map(({ key }) => key),
    ['k', 'third'],
  )
})

t.test('the number of keys is limited, and expired ones free a place', async (t) => {
  const { key, keys, sql } = await createTestServer(t)
  const { agentId } = await key({ expiresAt: at, createdAt: new Date(at.getTime() - 1) })
  const one = (createdAt = at) => ({
    id: newUuidV7(at.getTime()),
    agentId,
    secret: newApiKey(),
    name: 'x',
    scopes: ['read', 'tools'],
    ...UNLIMITED_API_KEY_SPENDING,
    cap: fromUsdc(1.5),
    expiresAt: null,
    createdAt,
  })
  const add = (most: number) => sql.begin((tx) => keys.add(tx, one(), most))
  const added = await Promise.all([add(2), add(2), add(2)])
  t.equal(added.filter(Boolean).length, 2)
  const listed = await keys.listOf(agentId)
  t.match(listed.at(-1), { scopes: ['read', 'tools'], cap: fromUsdc(1.5), prefix: /^gas_.{4}$/ })
})

t.test('rows of a new agent go through a command as whole JSON rows', async (t) => {
  const { keys, sql } = await createTestServer(t)
  const agentId = newUuidV7(at.getTime())
  const secret = newApiKey()
  const pepper = deriveSubkey(TEST_MASTER_KEY, 'pepper')
  const row = toApiKeyRow(pepper, {
    id: newUuidV7(at.getTime()),
    agentId,
    secret,
    name: 'first',
    scopes: ['*'],
    ...UNLIMITED_API_KEY_SPENDING,
    expiresAt: null,
    createdAt: at,
  })
  const about = { agentId, name: 'a', framework: 'http', createdAt: at, discoverable: false }
  const nothing = {
    description: null,
    toolCategory: null,
    preferredPayment: null,
    referralCode: null,
  }
  const contacts = { contactEmail: null, ownerEmail: 'o@x.test', ownerTelegram: null, source: null }
  const profile = toAgentRow({ ...about, ...nothing, ...contacts })
  for (const [table, staged] of [
    ['api_keys', row],
    ['agents', profile],
  ] as const) {
    const text = JSON.stringify(staged)
    await sql`insert into ${sql(table)} select * from jsonb_populate_record(null::${sql(table)}, ${text}::text::jsonb)`
  }
  t.match(await keys.find(keys.hash(secret)), { agentId, scopes: ['*'], cap: null, createdAt: at })
  const profiles = createAgentProfileStore(sql)
  t.match(await profiles.of(agentId), { name: 'a', framework: 'http', ownerEmail: 'o@x.test' })
  const changed = await sql.begin((tx) => profiles.setContact(tx, agentId, { ownerTelegram: '7' }))
  t.same(changed, { ownerEmail: 'o@x.test', ownerTelegram: '7' })
  const cleared = await sql.begin((tx) => profiles.setContact(tx, agentId, { ownerEmail: null }))
  t.same(cleared, { ownerEmail: null, ownerTelegram: '7' })
  t.equal(await profiles.has(newUuidV7(at.getTime())), false)
})

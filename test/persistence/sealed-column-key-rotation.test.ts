import t from 'tap'
import {
  parseMasterKey,
  masterKeyId,
  deriveEncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import { retireMasterKey } from '../../persistence/encrypted-database-columns.ts'
import { openWebhookSecret, createWebhookStore } from '../../persistence/webhooks/webhook-store.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

const [OLD, NEW] = ['0a0b0c0d', '01020304'] as const

/** As an envelope begins: its version, and the key it names. */
const sealedBy = (key: string, text: string): Buffer =>
  Buffer.concat([Buffer.from([0, 1]), Buffer.from(key, 'hex'), Buffer.from(text)])

t.test('rows under the previous key are readable, and rewritten under the new one', async (t) => {
  const { sql } = await createTestDatabase(t)
  const put = (name: string, sealed: Buffer) => sql`
    insert into idempotency_drafts (owner, idempotency_key, request_hash, sealed)
    values ('visitor', ${name}, 'hash', ${sealed})`
  const hashes = async () => {
    const rows = await sql<{ hash: string; key: string }[]>`
      select request_hash as hash, encode(substring(sealed from 3 for 4), 'hex') as key
        from idempotency_drafts order by idempotency_key`
    return rows.map(({ hash, key }) => `${hash} ${key}`)
  }
  await put('1', sealedBy(OLD, 'one'))
  await put('2', sealedBy(OLD, 'two'))
  await retireMasterKey(sql, OLD)

  await sql`update idempotency_drafts set request_hash = 'used'`
  await sql`update idempotency_drafts set request_hash = 'same', sealed = sealed where idempotency_key = '2'`
  t.strictSame(await hashes(), [`used ${OLD}`, `same ${OLD}`], 'what stays as it was')

  await t.rejects(put('3', sealedBy(OLD, 'three')), /retired/)
  const again = sealedBy(OLD, 'other words')
  await t.rejects(
    sql`update idempotency_drafts set sealed = ${again} where idempotency_key = '1'`,
    /retired/,
  )
  await t.rejects(
    sql`update idempotency_drafts set request_hash = 'both', sealed =
      case idempotency_key when '1' then ${sealedBy(NEW, 'one')} else ${again} end`,
    /retired/,
    'one of several',
  )
  t.strictSame(await hashes(), [`used ${OLD}`, `same ${OLD}`], 'nothing of it has happened')

  await sql`update idempotency_drafts set sealed = ${sealedBy(NEW, 'one')} where idempotency_key = '1'`
  await sql`update idempotency_drafts set request_hash = 'late'`
  t.strictSame(await hashes(), [`late ${NEW}`, `late ${OLD}`], 'also beside one that is left')
})

t.test('the secret of a webhook changes while the master key is rotated', async (t) => {
  const { sql } = await createTestDatabase(t)
  const [old, current] = [1, 2].map((byte) =>
    parseMasterKey(Buffer.alloc(32, byte).toString('base64')),
  )
  if (old === undefined || current === undefined) throw new Error('there are two')
  const at = new Date()
  const wanted = { agentId: 'a', url: 'https://a.example', events: ['all'], at }
  const before = createWebhookStore(sql, deriveEncryptionKeys([old], 'webhook'))
  const made = await sql.begin((tx) => before.add(tx, wanted, 10))
  const id = made?.webhook.id ?? ''
  // Taken out of use, and this row is not sealed anew yet.
  await retireMasterKey(sql, masterKeyId(old))
  const after = createWebhookStore(sql, deriveEncryptionKeys([current, old], 'webhook'))
  const changed = await sql.begin((tx) => after.rotate(tx, 'a', id, at))
  const [row] = await sql<{ sealed: Buffer; sealed_before: Buffer }[]>`
    select sealed, sealed_before from webhooks`
  const opened = (sealed: Buffer = Buffer.alloc(0)) =>
    openWebhookSecret(deriveEncryptionKeys([current], 'webhook'), 'a', id, sealed)
  t.equal(opened(row?.sealed), changed?.secret)
  t.equal(opened(row?.sealed_before), made?.secret, 'the one before signs beside it')
  t.equal(await sql.begin((tx) => after.rotate(tx, 'b', id, at)), null, 'not of another agent')
})

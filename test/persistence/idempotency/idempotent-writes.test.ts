import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { deriveEncryptionKey } from '../../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../../core/errors.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { IdempotencyKeyAnsweredElsewhereError } from '../../../actors/aggregate-command-types.ts'
import {
  createIdempotentWrites,
  type IdempotentRequest,
} from '../../../persistence/idempotency/idempotent-writes.ts'
import {
  createTestServer,
  TEST_MASTER_KEY,
} from '../../support/http/test-fastify-server-with-custom-routes.ts'

const write = (fields: Partial<IdempotentRequest> = {}): IdempotentRequest => ({
  owner: 'owner',
  agentId: null,
  keyId: null,
  key: 'k1',
  hash: 'h1',
  operation: 'test',
  ...fields,
})

t.test('a repeated write gets the first answer and is done once', async (t) => {
  const { once } = await createTestServer(t)
  let done = 0
  const work = async () => ({ status: 201, body: { done: ++done } })
  t.same(await once.runTransaction(write(), work), {
    status: 201,
    body: { done: 1 },
    replayed: false,
  })
  t.same(await once.runTransaction(write(), work), {
    status: 201,
    body: { done: 1 },
    replayed: true,
  })
  t.same((await once.runTransaction(write({ owner: 'other' }), work)).body, { done: 2 })
  t.same((await once.runTransaction(write({ key: null }), work)).body, { done: 3 })
  await t.rejects(once.runTransaction(write({ hash: 'h2' }), work), {
    code: 'idempotency_key_reused',
  })
})

t.test('concurrent equal writes run once, on one node and on two', async (t) => {
  const { once, sql } = await createTestServer(t)
  const neighbour = createIdempotentWrites(
    sql,
    createDatabaseAdjustedClock(),
    deriveEncryptionKey(TEST_MASTER_KEY, 'answers'),
  )
  let done = 0
  const work = async () => ({ status: 200, body: { done: ++done } })
  const answers = await Promise.all(
    Array.from({ length: 16 }, (_, at) =>
      (at % 2 === 0 ? once : neighbour).runTransaction(write(), work),
    ),
  )
  t.equal(done, 1)
  t.same(new Set(answers.map(({ body }) => JSON.stringify(body))), new Set(['{"done":1}']))
  t.equal(answers.filter(({ replayed }) => !replayed).length, 1)
})

t.test('a rejected write stores nothing, and its key may be used again', async (t) => {
  const { once, sql } = await createTestServer(t)
  const refused = once.runTransaction(write(), async (tx) => {
    await tx`insert into clipboard values ('bp', 'k', '1', null, now())`
    throw new ServiceError('limit_reached')
  })
  await t.rejects(refused, { code: 'limit_reached' })
  t.equal((await sql`select from clipboard`).count, 0)
  const again = await once.runTransaction(write({ hash: 'h2' }), async () => ({
    status: 200,
    body: 'ok',
  }))
  t.match(again, { body: 'ok', replayed: false })
})

t.test('a reply with a secret is stored sealed', async (t) => {
  const { once, sql } = await createTestServer(t)
  const secret = write({ secret: true })
  const work = async () => ({ status: 201, body: { api_key: 'gas_topsecret' } })
  await once.runTransaction(secret, work)
  const [row] = await sql<{ response: string }[]>`select response from calls`
  t.notMatch(row?.response, 'topsecret')
  t.match(await once.runTransaction(secret, work), {
    body: { api_key: 'gas_topsecret' },
    replayed: true,
  })
})

t.test('a command stores its reply, or detects that another node was first', async (t) => {
  const { once } = await createTestServer(t)
  const present = (n: number) => ({ status: 200, body: { n } })
  const receipts: unknown[] = []
  const fresh = await once.runCommand(write(), present, async ({ receipt }) => {
    receipts.push(receipt && { ...receipt, answer: receipt.present(7) })
    return 7
  })
  t.match(fresh, { body: { n: 7 }, replayed: false })
  t.match(receipts[0], { operation: 'test', key: 'k1', hash: 'h1', answer: { body: { n: 7 } } })
  const stored = {
    callId: newUuidV7(1),
    operation: 'test',
    requestHash: 'h1',
    response: present(9),
  }
  const late = async () => {
    throw new IdempotencyKeyAnsweredElsewhereError(stored)
  }
  t.match(await once.runCommand(write(), present, late), { body: { n: 9 }, replayed: true })
  await t.rejects(once.runCommand(write({ hash: 'h2' }), present, late), {
    code: 'idempotency_key_reused',
  })
})

/** Work that stores its results for a retry and can crash before its reply. */
function plan() {
  const made = new Set<string>()
  const told = { admitted: 0, crash: false }
  return {
    made,
    told,
    admit: async () => void (told.admitted += 1),
    draw: () => ({ id: newUuidV7(Date.now()) }),
    async work({ id }: { id: string }, again: boolean) {
      if (!again && made.has(id)) throw new Error('created before, without the flag')
      made.add(id)
      if (told.crash) throw new Error('the process ends here')
      return { status: 201, body: { id, at: made.size } }
    },
  }
}

t.test('repeated work has the same effect and one answer', async (t) => {
  const { once, sql } = await createTestServer(t)
  const onboarding = plan()
  onboarding.told.crash = true
  await t.rejects(once.runResumable(write(), onboarding), /ends here/)
  onboarding.told.crash = false
  const answered = await once.runResumable(write(), onboarding)
  t.equal(onboarding.made.size, 1)
  t.match(answered, { body: { id: [...onboarding.made][0] }, replayed: false })
  t.same(await once.runResumable(write(), onboarding), { ...answered, replayed: true })
  t.equal(onboarding.told.admitted, 1, 'what has begun is not asked again whether it may')
  await t.rejects(once.runResumable(write({ hash: 'h2' }), onboarding), {
    code: 'idempotency_key_reused',
  })
  await once.runResumable(write({ owner: 'other' }), onboarding)
  await once.runResumable(write({ key: null }), onboarding)
  t.equal(onboarding.made.size, 3)
  const [draft] = await sql<
    { sealed: Buffer }[]
  >`select sealed from idempotency_drafts where owner = 'owner'`
  t.notOk(draft?.sealed.includes([...onboarding.made][0] ?? ''), 'a draw is kept sealed')
})

t.test(
  'a key used with another request is rejected, and the key of a rejected request is free',
  async (t) => {
    const { once, sql } = await createTestServer(t)
    const onboarding = plan()
    const full = async () => {
      throw new ServiceError('rate_limited')
    }
    await t.rejects(once.runResumable(write(), { ...onboarding, admit: full }), {
      code: 'rate_limited',
    })
    onboarding.told.crash = true
    await t.rejects(once.runResumable(write({ hash: 'h2' }), onboarding), /ends here/)
    onboarding.told.crash = false
    await t.rejects(once.runResumable(write(), onboarding), { code: 'idempotency_key_reused' })
    await sql`update idempotency_drafts set at = now() - interval '11 minutes'`
    await once.runResumable(write(), onboarding)
    t.equal(onboarding.made.size, 2, 'after ten minutes the key stands for something new')
  },
)

t.test('concurrent equal work on two nodes runs once', async (t) => {
  const { once, sql } = await createTestServer(t)
  const neighbour = createIdempotentWrites(
    sql,
    createDatabaseAdjustedClock(),
    deriveEncryptionKey(TEST_MASTER_KEY, 'answers'),
  )
  const onboarding = plan()
  const answers = await Promise.all(
    Array.from({ length: 16 }, (_, at) =>
      (at % 2 === 0 ? once : neighbour).runResumable(write(), {
        ...onboarding,
        work: ({ id }: { id: string }) => onboarding.work({ id }, true),
      }),
    ),
  )
  t.equal(onboarding.made.size, 1)
  t.equal(new Set(answers.map(({ body }) => JSON.stringify(body))).size, 1)
  t.equal(answers.filter(({ replayed }) => !replayed).length, 1)
})

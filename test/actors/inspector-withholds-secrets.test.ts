import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  listShownAndWithheldFields,
  redactActorContextForInspector,
  WITHHELD_FIELD_PLACEHOLDER,
  redactEventValueForInspector,
} from '../../actors/inspection/withhold-secrets-from-inspector.ts'
import { machineRegistry, type ActorKind } from '../../actors/machine-registry.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'

/** Every field of a context is either shown or withheld on purpose. */

const golden = join(REPOSITORY_ROOT, 'test/machines/golden')
const contexts = readdirSync(golden).map((file) => {
  const states = JSON.parse(readFileSync(join(golden, file), 'utf8')) as { context: object }[]
  const name = file
    .replace(/-v\d+\.json$/, '')
    .replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
  return {
    kind: name as ActorKind,
    fields: [...new Set(states.flatMap(({ context }) => Object.keys(context)))],
  }
})

t.test('all fields of all machines are classified', async (t) => {
  t.strictSame(contexts.map(({ kind }) => kind).sort(), Object.keys(machineRegistry).sort())
  for (const { kind, fields } of contexts) {
    const { shown, withheld } = listShownAndWithheldFields(kind)
    t.strictSame([...shown, ...withheld].sort(), [...fields].sort(), kind)
  }
})

t.test('a field that is not listed is withheld', async (t) => {
  t.strictSame(redactActorContextForInspector('fleet', { cash: 1_000_000n, added: 'x' }), {
    cash: 1,
    added: WITHHELD_FIELD_PLACEHOLDER,
  })
})

t.test('units of an asset and numbers of blocks are no USDC', async (t) => {
  const units = 5_000_000_000_000_000n
  const reserve = { type: 'RESERVE', asset: 'usdc', amount: units, balance: null, price: 5_000n }
  const shown = { asset: 'usdc', amount: '5000000000000000' }
  t.match(redactEventValueForInspector(reserve), { ...shown, balance: null, price: 0.005 })
  t.match(redactEventValueForInspector({ type: 'SETTLE', block: 31_000_000n }), {
    block: '31000000',
  })
  t.match(
    redactActorContextForInspector('settlement', { asset: 'usdc', amount: { $n: String(units) } }),
    shown,
  )
  const reservations = { s1: { asset: 'usdc', amount: units } }
  t.match(redactActorContextForInspector('payer', { reservations }), {
    reservations: { s1: shown },
  })
})

t.test('secrets are withheld at any depth, by name and by form', async (t) => {
  const key = `gas_${'a'.repeat(49)}`
  const event = {
    type: 'CLAIM',
    keyId: 'id',
    amount: 5_000n,
    idempotencyKey: 'k',
    nested: { private_key: 'k', list: [{ apiToken: 'k', note: `text ${key} text` }] },
  }
  t.strictSame(redactEventValueForInspector(event), {
    type: 'CLAIM',
    keyId: 'id',
    amount: 0.005,
    idempotencyKey: WITHHELD_FIELD_PLACEHOLDER,
    nested: {
      private_key: WITHHELD_FIELD_PLACEHOLDER,
      list: [
        { apiToken: WITHHELD_FIELD_PLACEHOLDER, note: `text ${WITHHELD_FIELD_PLACEHOLDER} text` },
      ],
    },
  })
})

import t from 'tap'
import { NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import { createWriteRouteFixtures } from '../../support/agents/write-route-fixtures.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { writeRouteCases } from '../../support/write-routes/write-route-cases.ts'

const main = await startInProcessTestStation(t)
const guest = await main.onboard()
const friend = await main.onboard()

interface Field {
  readonly type?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly items?: Field
}

/** White space of every kind, as long as a field demands. */
const blank = ({ minLength = 0, maxLength = 9 }: Field) =>
  ' \t\n\u00a0\u3000'.padEnd(minLength, ' ').slice(0, maxLength)

/** Fields that accept a text without words. */
const FREE = new Set(['llm_routing.system'])

t.test('every tool rejects blank text without a charge', async (t) => {
  const before = await main.balance(guest)
  let fields = 0
  for (const tool of NATIVE_TOOLS) {
    const { properties = {} } = tool.input as { properties?: Record<string, Field> }
    for (const [name, field] of Object.entries(properties)) {
      if (FREE.has(`${tool.slug}.${name}`)) continue
      const list = field.type === 'array' && field.items?.type === 'string'
      if (field.type !== 'string' && !list) continue
      fields += 1
      const value = list ? [blank(field.items ?? {})] : blank(field)
      const body = { params: { ...(tool.examples[0] as object), [name]: value } }
      const answer = await main.call(guest, tool.slug, body)
      const pointer = `/${name}${list ? '/0' : ''}`
      t.match(answer, { status: 400, body: { code: 'invalid_input' } }, `${tool.slug}.${name}`)
      t.ok(
        answer.body.errors?.some((one) => one.pointer === pointer),
        `${tool.slug} names ${pointer}`,
      )
    }
  }
  t.ok(fields > 50, `${fields} fields`)
  t.equal(await main.balance(guest), before)
})

t.test('validation errors are sentences', async (t) => {
  const answer = await main.call(guest, 'genesis_forge', { prompt: ' '.repeat(10) })
  t.match(answer, {
    status: 400,
    body: { errors: [{ pointer: '/prompt', detail: 'must not be blank' }] },
  })
})

t.test('every route rejects blank text', async (t) => {
  const table = writeRouteCases(await createWriteRouteFixtures(main, guest))
  const before = await main.balance(guest)
  for (const [route, ...names] of [
    ['bounties', 'title', 'description', 'domain'],
    ['bounties/{id}/claim', 'content'],
    ['backpack/create', 'agent_name'],
    ['backpack/{id}/keyring', 'secret'],
    ['task/schedule', 'name', 'tool'],
    ['task/start', 'name'],
    ['messages', 'message', 'subject'],
    ['agent/send', 'memo'],
    ['tip', 'note'],
    ['signal/publish', 'channel'],
    ['pulse', 'goal_vector'],
    ['agent/ping-owner', 'message'],
    ['agent/plan', 'task'],
    ['fleet/create', 'name'],
    ['keys', 'name'],
    ['webhook/register', 'url'],
    ['packs/install', 'slug'],
    ['hive/write', 'content'],
    ['vault/write', 'content'],
    ['vault/share', 'memo'],
    ['strategies', 'title', 'description', 'tool'],
  ] as const) {
    const one = table[`POST /api/${route}`]
    if (one === undefined) throw new Error(`no such route: ${route}`)
    for (const name of names) {
      const json = { ...one.body, [name]: ' '.repeat(60) }
      const answer = await main.ask('POST', one.path, { key: guest.key, json })
      t.match(
        answer,
        { status: 400, body: { code: 'invalid_input', errors: [{ pointer: `/${name}` }] } },
        `${route} ${name}`,
      )
    }
  }
  t.equal(await main.balance(guest), before)
})

t.test('blanks around and between words are kept', async (t) => {
  const answer = await main.call(guest, 'agent_ping', {
    target_agent_id: friend.id,
    message: '  two  words \n',
  })
  t.match(answer, { status: 200, body: { delivered: true } })
})

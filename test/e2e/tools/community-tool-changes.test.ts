import t from 'tap'
import { judgeCommunityToolByMeasuredCallsCommand } from '../../../actors/commands/community-tool-commands.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'

/** Community tools that are changed twice at one time, and those that are judged. */

const { builder, station, ask, seller, patch, open } = await startTestCommunityToolMarket(t)

t.test('a change that waits for its proof undoes no other change', async (t) => {
  await open('weather-now', '/weather')
  let answerProof = () => {}
  const proofAsked = new Promise<void>((resolve) => {
    builder.beforeProof(() => {
      resolve()
      return new Promise<void>((answer) => (answerProof = answer))
    })
  })
  const moved = patch('weather-now', { endpoint_url: builder.url('/weather') })
  await proofAsked
  t.equal((await patch('weather-now', { name: 'Weather today' })).status, 200)
  builder.beforeProof(() => {})
  answerProof()
  t.equal((await moved).status, 200)
  t.match(await ask('GET', '/api/tools/weather-now'), { body: { name: 'Weather today' } })
})

t.test('a tool that fails is suspended, and its builder and its owner are told', async (t) => {
  await open('poor-one', '/weather')
  const contact = { owner_email: 'owner@example.com' }
  await ask('POST', '/api/agent/set-contact', { key: seller.key, json: contact })
  const [tool] = await station.sql<{ since: number }[]>`
    select (extract(epoch from measured_from) * 1000)::float8 as since
      from community_tools where slug = 'poor-one'`
  const half = {
    since: Math.round(tool?.since ?? 0),
    calls: 50,
    successes: 25,
    payers: 3,
    failingPayers: 3,
  }
  const judge = (quality: typeof half) =>
    station.station.actors.ask('tool:poor-one', judgeCommunityToolByMeasuredCallsCommand, quality)
  t.equal(await judge(half), null, 'half of the calls suffice')
  await judge({ ...half, successes: 24 })
  const { body } = await ask('GET', '/api/builder', { key: seller.key })
  const tools = body['tools'] as { slug: string }[]
  t.match(
    tools.find(({ slug }) => slug === 'poor-one'),
    { status: 'suspended' },
  )
  const events = await station.sql`select data from outbox where type = 'tool.judged'`
  const data = { tool: 'poor-one', state: 'suspended', calls: 50, successes: 24 }
  t.match([...events], [{ data }])
  const alerts = () => station.sql`
    select address, subject, body from alerts where topic = 'tool.judged'`
  await eventually(async () => (await alerts()).length > 0, 'a message to the owner')
  t.match(
    [...(await alerts())],
    [
      {
        address: 'owner@example.com',
        subject: /^The tool poor-one of \S+ is suspended$/,
        body: /24 of 50 counted calls.*prove its endpoint anew/,
      },
    ],
  )
})

t.test('the ledger adds up', async () => station.verify())

import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

t.test('a lost race for the next number of a fleet is no error in the log', async (t) => {
  const { station, ask, onboard, verify } = await startInProcessTestStation(t)
  const logged: unknown[] = []
  Object.assign(station.server.log, {
    error: (_details: object, message: string) => logged.push(message),
  })
  const { key } = await onboard()
  const create = (at: number) =>
    ask('POST', '/api/fleet/create', { key, json: { name: `fleet ${at}` } })
  const replies = await Promise.all([1, 2, 3, 4, 5].map(create))
  for (const { status, text } of replies) t.ok(status < 300, text)
  t.strictSame(logged, [])
  await verify()
})

import t from 'tap'
import { spawnSecondNode, startStation } from '../support/station/start-test-station.ts'

t.test('a port that is taken is named, and the start ends in order', async (t) => {
  const main = await startStation(t)
  const { port } = new URL(main.url)
  const beside = spawnSecondNode(t, main, { PORT: port })
  await t.rejects(beside, new RegExp(`cannot listen on 127.0.0.1:${port}: listen EADDRINUSE`))
})

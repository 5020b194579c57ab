import t from 'tap'
import {
  spawnSecondNode,
  startInProcessTestStation,
} from '../support/station/start-test-station.ts'

t.test('a port in use ends the start with an error that names it', async (t) => {
  const main = await startInProcessTestStation(t)
  const { port } = new URL(main.url)
  const beside = spawnSecondNode(t, main, { PORT: port })
  await t.rejects(beside, new RegExp(`cannot listen on 127.0.0.1:${port}: listen EADDRINUSE`))
})

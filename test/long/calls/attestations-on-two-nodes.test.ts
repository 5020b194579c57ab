import t from 'tap'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
} from '../../support/station/start-test-station.ts'

/** Two nodes append the fees of both, each once, also when one is killed. */

const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '5' })
const TOOL = 'hive_trending'
const sizeOfTree = async () =>
  Number((await main.ask('GET', '/api/attestations/head')).body['tree_size'])

t.test('each fee is appended once, whichever node runs', async (t) => {
  const second = await spawnSecondNode(t, main, { STARTER_CREDITS_USDC: '5' })
  const agents = [await main.onboard(), await main.onboard(), await main.onboard()]
  let served = 0
  const load = async (ask: typeof main.call, calls: number) => {
    for (let call = 0; call < calls; call += 1) {
      const replies = await Promise.allSettled(agents.map((agent) => ask(agent, TOOL)))
      served += replies.filter(
        (one) => one.status === 'fulfilled' && one.value.status === 200,
      ).length
    }
  }
  await Promise.all([load(main.call, 40), load(second.call, 40)])
  await eventually(async () => (await sizeOfTree()) === served, 'all fees of both nodes')
  t.equal(served, 240)
  await load(second.call, 3)
  await second.end('SIGKILL')
  await load(main.call, 3)
  await eventually(async () => (await sizeOfTree()) === 258, 'the fees of the killed node too')
  await main.verify()
})

import { GasStation } from '@gas-station/sdk'

/** Streams a call, then hears the signals of another agent. Broken connections resume by themselves. */

const url = process.env['GAS_URL'] ?? 'http://127.0.0.1:8402'
const { gas: listener } = await GasStation.onboard({ url }, { name: 'listener' })
const { gas: speaker } = await GasStation.onboard({ url }, { name: 'speaker' })

for await (const { event, data } of listener.stream('hive_trending', { limit: 2 })) {
  if (event === 'result') console.log(`result: ${data._meta.cost_usdc} USDC`)
  else console.log(`${event}: ${JSON.stringify(data)}`)
}

const channel = 'examples:weather'
let heard = 0
for await (const { event, data, cursor } of listener.signals([channel])) {
  console.log(`${event} at ${cursor}: ${JSON.stringify(data['payload'] ?? data['channels'])}`)
  if (event === 'ready')
    for (const degrees of [21, 22]) {
      const signal = { channel, type: 'insight', payload: { degrees } }
      await speaker.request('POST', '/api/signal/publish', signal)
    }
  if (event === 'signal' && (heard += 1) === 2) break
}

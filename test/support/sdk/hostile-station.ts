import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A server in the place of a station, and the terms of MPP that it asks for. */

export const HOSTILE_STATION_PATH_USD_ADDRESS = '0x20c0000000000000000000000000000000000000'
export const HOSTILE_STATION_RECIPIENT = '0x00000000000000000000000000000000000000aa'

const methodDetails = { chainId: 4217, supportedModes: ['pull'] }
export const MPP_TERMS = {
  amount: '5000',
  currency: HOSTILE_STATION_PATH_USD_ADDRESS,
  methodDetails,
  recipient: HOSTILE_STATION_RECIPIENT,
}

/** The quote that equals these terms. */
export const MPP_QUOTE = {
  price_usdc: 0.005,
  offers: [
    {
      protocol: 'mpp',
      network: 'eip155:4217',
      asset: HOSTILE_STATION_PATH_USD_ADDRESS,
      pay_to: HOSTILE_STATION_RECIPIENT,
      amount: '5000',
    },
  ],
}

export const encodeMppTerms = (terms: object): string =>
  Buffer.from(JSON.stringify(terms)).toString('base64url')

/** A challenge for these terms, and what follows them. */
export const sampleMppChallengeHeader = (request: string, more = ''): string =>
  `Payment id="a", realm="gas", method="tempo", intent="charge", request="${request}"${more}`

/** Starts a server; returns its address and the requests it gets. */
export async function startHostileStation(
  t: { teardown(work: () => unknown): unknown },
  answer: RequestListener,
): Promise<{ readonly url: string; readonly seen: IncomingMessage[] }> {
  const seen: IncomingMessage[] = []
  const server = createServer((request, reply) => {
    seen.push(request)
    request.resume().on('end', () => answer(request, reply))
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => server.close().closeAllConnections())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

/** A catalogue of three tools on two pages. */
export const cataloguePage = (url: string | undefined): string =>
  url === '/api/tools'
    ? '{"tools":[{"slug":"a"},{"slug":"b"}],"next_cursor":"Yg"}'
    : `{"tools":${url === '/api/tools?cursor=Yg' ? '[{"slug":"c"}]' : '[]'},"next_cursor":null}`

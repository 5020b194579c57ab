import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { startFixtureServer, type TeardownScope } from '../upstreams/fixture-server.ts'

/** The outcome of one settle request. */
export type FacilitatorBehaviour =
  | 'settle'
  /** The money moves, but the reply is lost. */
  | 'unanswered'
  /** Nothing happens, and the reply is malformed. */
  | 'broken'
  | 'garbage'
  /** The money moves, and the reply waits until the test releases it. */
  | 'held'
  | { readonly refuses: string; readonly moves?: boolean; readonly names?: boolean }

export const SOLANA_FEE_PAYER = 'EwWqGE4ZFKLofuestmU4LDdK7XM1N4ALgdZccwYugwGd'

/**
 * A Solana facilitator on a real socket. It settles a transaction once, even when requested
 * repeatedly. `land` puts it on a chain and returns its signature.
 */
export async function startTestFacilitator(
  t: TeardownScope,
  land: (transaction: string) => string = () => `5${randomBytes(40).toString('hex')}`,
) {
  const moved = new Map<string, string>()
  const fates: FacilitatorBehaviour[] = []
  const held: (() => void)[] = []
  let rule: FacilitatorBehaviour = 'settle'
  let down = false
  let settles = 0
  let verdict: object = { isValid: true }

  const answer = (response: ServerResponse, body: unknown, status = 200) =>
    void response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify(body))

  const move = (transaction: string): string => {
    const signature = moved.get(transaction) ?? land(transaction)
    moved.set(transaction, signature)
    return signature
  }

  function settle(transaction: string, response: ServerResponse): void {
    settles += 1
    const fate = fates.shift() ?? rule
    const network = PAYMENT_NETWORKS.solana.caip2
    const done = () => answer(response, { success: true, transaction: move(transaction), network })
    if (fate === 'settle') return done()
    if (fate === 'garbage') return void response.writeHead(200).end('<html>')
    if (fate === 'broken') return answer(response, {}, 500)
    if (fate === 'held') {
      move(transaction)
      return void held.push(done)
    }
    if (fate === 'unanswered') {
      move(transaction)
      return void response.destroy()
    }
    if (fate.moves === true) move(transaction)
    const named = fate.names === true ? (moved.get(transaction) ?? '') : ''
    const refusal = { success: false, errorReason: fate.refuses, transaction: named, network }
    answer(response, refusal, 400)
  }

  const { base } = await startFixtureServer(t, (request, response) => {
    if (request.url === '/supported') {
      const extra = { feePayer: SOLANA_FEE_PAYER }
      const kind = {
        x402Version: 2,
        scheme: 'exact',
        network: PAYMENT_NETWORKS.solana.caip2,
        extra,
      }
      return answer(response, { kinds: [kind], extensions: [], signers: {} })
    }
    json(request)
      .then((body) => {
        if (down) return answer(response, {}, 503)
        const { payload } = (body as { paymentPayload: { payload: { transaction: string } } })
          .paymentPayload
        if (request.url === '/verify') answer(response, verdict)
        else settle(payload.transaction, response)
      })
      .catch(() => response.destroy())
  })
  return {
    url: base,
    /** Settled transactions and their signatures. */
    moved,
    /** Sets the verify reply for later payments. */
    judges: (says: object) => void (verdict = says),
    /** Number of settle requests. */
    asked: () => settles,
    /** Sets the outcomes of the next settle requests, and the default after them. */
    decide(next: readonly FacilitatorBehaviour[], then: FacilitatorBehaviour = 'settle'): void {
      fates.splice(0, fates.length, ...next)
      rule = then
    },
    /** Releases the held replies. */
    letGo: () => held.splice(0).forEach((done) => done()),
    /** Makes every request return 503. */
    fail: (fails: boolean) => void (down = fails),
  }
}

/** A signed TransferChecked of a new payer in a v0 message, base64. */
export function createSignedSolanaTransfer(): string {
  const token = '06ddf6e1d765a193d9cbe146ceeb79ac1cb485ed5f5b37913a8cf5857eff00a9'
  const keys = [1, 0, 3, 4, 5].map((fill) =>
    fill === 0 ? randomBytes(32) : Buffer.alloc(32, fill),
  )
  const transfer = [5, 4, 2, 3, 4, 1, 10, 12, ...[0x88, 0x13, 0, 0, 0, 0, 0, 0], 6]
  return Buffer.concat([
    Buffer.from([2]),
    Buffer.alloc(64),
    randomBytes(64),
    Buffer.from([0x80, 2, 1, 2, keys.length + 1]),
    ...keys,
    Buffer.from(token, 'hex'),
    randomBytes(32),
    Buffer.from([1, ...transfer, 0]),
  ]).toString('base64')
}

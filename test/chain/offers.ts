import { PaymentProblem } from '../../chain/payment.ts'
import { NETWORKS } from '../../chain/networks.ts'
import { offerOf, type Rails } from '../../chain/x402/requirements.ts'
import { fromUsdc } from '../../core/money.ts'

/** Spelled with a wrong checksum, as a setting may be. */
export const TREASURY = '0x00000000000000000000000000000000000BEeF1'
export const URL_ = 'https://gas.example/api/t/agent_see'
/** An instant that no clock has to reach; milliseconds. */
export const NOW = 1_800_000_000_000
export const SECONDS = NOW / 1000
export const DEADLINE_MS = 30_000
export const NO_BODY = new Uint8Array()

const evm = (network: typeof NETWORKS.base | typeof NETWORKS.bsc) => ({
  payTo: TREASURY,
  asset: network.asset,
  domain: network.domain,
  chainId: network.chainId,
})

/** Every rail on. */
export const RAILS: Rails = {
  base: evm(NETWORKS.base),
  bsc: evm(NETWORKS.bsc),
  solana: {
    payTo: '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4',
    feePayer: 'EwWqGE4ZFKLofuestmU4LDdK7XM1N4ALgdZccwYugwGd',
  },
  tempo: {
    recipient: TREASURY,
    currency: '0x20c0000000000000000000000000000000000000',
    secret: '0123456789abcdef0123456789abcdef',
    realm: 'gas.example',
    chainId: 4217,
  },
}

export const offer = (rails: Rails = RAILS, usdc = 0.03, deadlineMs = DEADLINE_MS) =>
  offerOf(rails, {
    url: URL_,
    description: 'Looks at a page: really???',
    mimeType: 'application/json',
    price: fromUsdc(usdc),
    deadlineMs,
  })

export const base64 = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64')

/** Status and reason of the problem a reading ends with; throws what else it ends with. */
export async function problemOf(reading: Promise<unknown>): Promise<[number, string]> {
  const problem = await reading.then(
    () => null,
    (error: unknown) => error,
  )
  if (problem instanceof PaymentProblem) return [problem.status, problem.reason]
  throw problem ?? new Error('it was accepted')
}

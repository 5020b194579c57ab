import type { EvmClient } from '../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../chain/payment-networks.ts'
import { hasExpectedEip712Domain, type Eip3009Token } from '../chain/evm/eip3009.ts'
import type { FacilitatorClient } from '../chain/x402/facilitator-client.ts'
import { NO_PAYMENT_RAILS, type EnabledPaymentRails } from '../chain/x402/payment-requirements.ts'
import type { PaymentChainName } from './ledger-accounts.ts'

/** Settings of the operator; null turns a part off. */
export interface PaymentChainSettings {
  readonly base: { readonly client: EvmClient; readonly usdc: string } | null
  /** The token of Base, also without a Base node; the usual USDC by default. */
  readonly usdcBase?: string
  readonly bsc: { readonly client: EvmClient } | null
  readonly tempo: {
    readonly client: EvmClient
    readonly currency: string
    readonly secret: string
  } | null
  readonly solana: { readonly facilitator: FacilitatorClient; readonly payTo: string } | null
  /** Recipient of payments on EVM chains. */
  readonly treasury: string | null
  /** The address that submits settlements. */
  readonly settler: string | null
  /** Named in MPP challenges. */
  readonly realm: string
  readonly log: (message: string, error: unknown) => void
}

/** The chains of this station: their clients, and the rails that are currently on. */
export interface PaymentChains {
  readonly settings: PaymentChainSettings
  readonly token: Eip3009Token | null
  /** By CAIP-2: the payment token of a chain, on or off. */
  readonly assets: ReadonlyMap<string, string>
  /** The rails to offer; a chain that has not answered yet is excluded. */
  rails(): EnabledPaymentRails
  /** One line per rail for health: on, or why it is off. */
  status(): Record<PaymentChainName, string>
  /**
   * Probes rails that are not on yet. Rejects if the token on the chain is not the configured one.
   */
  check(): Promise<void>
}

const CHAIN_NAMES_BY_CAIP2 = new Map<string, PaymentChainName>(
  Object.values(PAYMENT_NETWORKS).map(({ caip2, name }) => [caip2, name]),
)

/** Whether payments on a CAIP-2 chain are known here. */
export const isPaymentChain = (caip2: string): boolean => CHAIN_NAMES_BY_CAIP2.has(caip2)

/** The ledger's name of a CAIP-2 chain; payments are only read for chains in the table. */
export function toPaymentChainName(caip2: string): PaymentChainName {
  const name = CHAIN_NAMES_BY_CAIP2.get(caip2)
  if (name === undefined) throw new Error(`${caip2} is no chain of ours`)
  return name
}

/**
 * The contract at the configured address is not USDC: signatures of payers would be for another
 * token.
 */
export class ConfiguredTokenIsNotUsdcError extends Error {
  constructor({ address, name }: Eip3009Token) {
    super(
      `USDC_ADDRESS_BASE: the contract at ${address} is not ${name}: its EIP-712 domain is another one`,
    )
    this.name = 'WrongTokenError'
  }
}

export function createPaymentChains(settings: PaymentChainSettings): PaymentChains {
  const { base, bsc, tempo, solana, treasury, settler, realm } = settings
  const token = base === null ? null : baseToken(base.usdc)
  const [payee, submitter] = [{ TREASURY_ADDRESS: treasury }, { SETTLER_PRIVATE_KEY: settler }]
  let rails: EnabledPaymentRails = NO_PAYMENT_RAILS

  async function checkBase(): Promise<void> {
    if (base === null || token === null || treasury === null || settler === null) return
    if (rails.base !== null) return
    let matches = false
    const asked = async () => (matches = await hasExpectedEip712Domain(base.client, token))
    if (!(await answers(asked))) return
    if (!matches) {
      throw new ConfiguredTokenIsNotUsdcError(token)
    }
    const { name, version } = token
    const rail = { payTo: treasury, asset: token.address, domain: { name, version } }
    rails = { ...rails, base: { ...rail, chainId: PAYMENT_NETWORKS.base.chainId } }
  }

  async function checkBsc(): Promise<void> {
    if (bsc === null || treasury === null || settler === null || rails.bsc !== null) return
    if (!(await answers(() => bsc.client.getChainId()))) return
    const { asset, domain, chainId } = PAYMENT_NETWORKS.bsc
    rails = { ...rails, bsc: { payTo: treasury, asset, domain, chainId } }
  }

  async function checkTempo(): Promise<void> {
    if (tempo === null || treasury === null || rails.tempo !== null) return
    if (!(await answers(() => tempo.client.getChainId()))) return
    const { currency, secret } = tempo
    const { chainId } = PAYMENT_NETWORKS.tempo
    rails = { ...rails, tempo: { recipient: treasury, currency, secret, realm, chainId } }
  }

  async function checkSolana(): Promise<void> {
    if (solana === null || rails.solana !== null) return
    const kinds = await solana.facilitator.supported().catch(() => [])
    const kind = kinds.find(
      ({ network, scheme }) => network === PAYMENT_NETWORKS.solana.caip2 && scheme === 'exact',
    )
    if (kind === undefined || kind.feePayer === null) return
    rails = { ...rails, solana: { payTo: solana.payTo, feePayer: kind.feePayer } }
  }

  const answers = async (ask: () => Promise<unknown>): Promise<boolean> => {
    try {
      await ask()
      return true
    } catch (error) {
      settings.log('a chain does not answer', error)
      return false
    }
  }

  return {
    settings,
    token,
    assets: new Map(
      Object.values(PAYMENT_NETWORKS).map(({ caip2, name, asset }) => [
        caip2,
        name === 'base' ? (settings.usdcBase ?? asset) : asset,
      ]),
    ),
    rails: () =>
      solana !== null && !solana.facilitator.available() ? { ...rails, solana: null } : rails,
    status: () => ({
      base: railStatus({ RPC_URL_BASE: base, ...payee, ...submitter }, rails.base !== null),
      bsc: railStatus({ RPC_URL_BSC: bsc, ...payee, ...submitter }, rails.bsc !== null),
      tempo: railStatus({ RPC_URL_TEMPO: tempo, ...payee }, rails.tempo !== null),
      solana: railStatus({ X402_FACILITATOR_URL: solana }, rails.solana !== null),
    }),
    async check() {
      await Promise.all([checkBase(), checkBsc(), checkTempo(), checkSolana()])
    },
  }
}

const baseToken = (address: string): Eip3009Token => ({
  address,
  ...PAYMENT_NETWORKS.base.domain,
  chainId: PAYMENT_NETWORKS.base.chainId,
})

/** `needs` are the settings of a rail; the first of them marks it as wanted. */
function railStatus(needs: Readonly<Record<string, unknown>>, on: boolean): string {
  if (on) return 'on'
  const missing = Object.keys(needs).filter((name) => needs[name] === null)
  if (missing.length === 0) return 'off: does not answer'
  const [chain = ''] = Object.keys(needs)
  return needs[chain] === null ? 'off: not configured' : `off: ${missing.join(', ')} missing`
}

import type { TAP } from 'tap'
import { openCreditDrop } from '../../../app/cli/operator/cli-credit-drops.ts'
import { startTestTelegram } from '../mail/test-mail-and-telegram-servers.ts'
import { insertArrivedDeposit } from '../payments/insert-test-deposit.ts'
import {
  paymentSignatureHeader,
  startTestPaymentChain,
} from '../payments/test-station-with-payment-chain.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
  type TestAgent,
} from '../station/start-test-station.ts'
import {
  startTestToolBuilderServer,
  sendJson,
  type TestToolBuilderServer,
} from '../tools/test-tool-builder-server.ts'
import { startAllTestUpstreams } from '../upstreams/all-test-upstreams.ts'
import { startTestPayableApis } from '../upstreams/test-payable-apis.ts'

/** A station on which every operation of the specification can succeed, and the agents that ask it. */

export interface ApiConformanceStation {
  readonly main: InProcessStation
  readonly builder: TestToolBuilderServer
  /** The agent of the walk, with credits of every kind. */
  readonly self: TestAgent
  readonly mate: TestAgent
  /** An agent that may be named and has paid with money from outside. */
  readonly payer: TestAgent
  /** Kept by earlier requests. */
  readonly ids: Record<string, string>
  /** An address that asks for a payment. */
  readonly payableUrl: string
  /** A `Payment-Signature` of this amount, in millionths of a USDC. */
  pay(amount: bigint): Promise<Record<string, string>>
  /** Sends USDC to an address and confirms it. Resolves to the transaction. */
  deposit(to: string, amount: bigint): Promise<string>
  /** Sends a request of the agent that has to succeed. */
  post(path: string, json: object, by?: TestAgent): Promise<Readonly<Record<string, unknown>>>
}

const STARTER = { STARTER_CREDITS_USDC: '40', PROMO_TRANSFERABLE: 'true', FREE_TIER_PER_DAY: '50' }
const CONFIRMATIONS = 12

export async function startApiConformanceStation(
  t: Pick<TAP, 'teardown' | 'testdir' | 'strictSame' | 'comment'>,
): Promise<ApiConformanceStation> {
  const chain = await startTestPaymentChain(t)
  const upstreams = await startAllTestUpstreams(t, chain.base.rpcUrl)
  const [chats, apis, builder] = await Promise.all([
    startTestTelegram(t),
    startTestPayableApis(t),
    startTestToolBuilderServer(t),
  ])
  const chat = { TELEGRAM_BOT_TOKEN: chats.token, TELEGRAM_BASE: chats.base }
  const main = await startInProcessTestStation(t, {
    ...upstreams.settings,
    ...chain.settings,
    ...chat,
    ...STARTER,
  })
  const [self, mate, payer] = [await main.onboard(), await main.onboard(), await main.onboard(0)]
  builder.on('/weather', (_, reply) => sendJson(reply, { celsius: 21 }))
  await payFromOutside(main, payer)
  return {
    ...{ main, builder, self, mate, payer },
    ids: { drop: (await openCreditDrop(main.sql))[0]?.code ?? '' },
    payableUrl: apis.at(1, '/v2'),
    async pay(amount) {
      return paymentSignatureHeader(await chain.createPayer(amount), chain, amount)
    },
    async deposit(to, amount) {
      const hash = await chain.base.mint(to, amount)
      await chain.base.mine(CONFIRMATIONS)
      return String(hash)
    },
    async post(path, json, by = self) {
      const { status, body, text } = await main.ask('POST', path, { key: by.key, json })
      if (status >= 300) throw new Error(`${path} answered ${status}: ${text}`)
      return body
    },
  }
}

/** The agent gets a deposit, spends more than its bonus, and may be named. */
async function payFromOutside(main: InProcessStation, agent: TestAgent): Promise<void> {
  await main.ask('PATCH', '/api/agent/me', { key: agent.key, json: { discoverable: true } })
  await insertArrivedDeposit(main, agent.id, 5)
  await main.balance(agent)
  for (const prompt of ['an agent that says hello', 'an agent that says goodbye'])
    await main.call(agent, 'genesis_forge', { prompt, framework: 'http' })
}

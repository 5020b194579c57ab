import type { LocalChain } from '../../test/support/chain/local-chain.ts'
import { roundUsdc, type DemoContext } from './demo-context.ts'
import { waitForDemoSettlement } from './demo-chapter-keyless-payments.ts'
import {
  printChapterTitle,
  assertDemoExpectation,
  printDemoOutputLine,
} from './demo-console-output.ts'

/** Compares the ledger with the chains and checks its own rules. */
export async function runDemoLedgerAuditChapter(demo: DemoContext): Promise<void> {
  printChapterTitle('The books')
  for (const id of demo.settlements) await waitForDemoSettlement(demo, id)
  printDemoOutputLine({
    call: 'GET /api/x402/settlements/{id}',
    status: 200,
    result: `${demo.settlements.size} payments on Base, all settled`,
  })
  const { base, tempo, treasury } = demo.environment
  const wallets = await demo.environment.sql<{ address: string }[]>`
    select address from wallets union select address from fleet_wallets`
  await assertLedgerMatchesChain(demo, base, 'base', [
    treasury,
    ...wallets.map(({ address }) => address),
  ])
  await assertLedgerMatchesChain(demo, tempo, 'tempo', [treasury])
  const { code, said } = await demo.environment.gas('verify')
  assertDemoExpectation(code === 0, '`gas verify` finds nothing broken', said)
  const rules = said.split('\n').filter((line) => line.startsWith('ok ')).length
  printDemoOutputLine({
    call: 'gas verify',
    result: `${rules} invariants recomputed from the ledger: no difference`,
  })
}

/**
 * The account `world:<chain>` must equal the balance of the station's addresses there, to the
 * micro.
 */
async function assertLedgerMatchesChain(
  { environment }: DemoContext,
  chain: LocalChain,
  name: string,
  addresses: readonly string[],
): Promise<void> {
  const held = await Promise.all(addresses.map((address) => chain.balanceOf(address)))
  const onChain = held.reduce((sum, balance) => sum + balance, 0n)
  const [row] = await environment.sql<{ came: bigint }[]>`
    select coalesce(sum(case when debit = ${`world:${name}`} then amount_micros else -amount_micros end), 0)::bigint
        as came
      from transfers where ${`world:${name}`} in (debit, credit)`
  assertDemoExpectation(
    row?.came === onChain,
    `the ledger has what came over ${name}`,
    `${row?.came} and ${onChain}`,
  )
  const [treasury = 0n, ...wallets] = held.map((balance) => roundUsdc(Number(balance) / 1e6))
  const inWallets = wallets.reduce<number>((sum, balance) => roundUsdc(sum + Number(balance)), 0)
  const result = `treasury ${treasury}${wallets.length === 0 ? '' : `, wallets ${inWallets}`}`
  const call = `USDC.balanceOf(…)  on ${name === 'base' ? 'Base' : 'Tempo'}`
  printDemoOutputLine({
    call,
    result,
    remaining: `ledger ${roundUsdc(Number(onChain) / 1e6)}: the same`,
  })
}

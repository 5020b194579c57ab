import type { LocalChain } from '../../test/support/chain/local-chain.ts'
import { roundUsdc, type DemoContext } from './demo-context.ts'
import { waitForDemoSettlement } from './chapter-payments.ts'
import { printChapterTitle, assertExpectation, printStep } from './console-output.ts'

/** The ledger against the chains, and against itself. */
export async function runLedgerAuditChapter(day: DemoContext): Promise<void> {
  printChapterTitle('The books')
  for (const id of day.settlements) await waitForDemoSettlement(day, id)
  printStep({
    call: 'GET /api/x402/settlements/{id}',
    status: 200,
    result: `${day.settlements.size} payments on Base, all settled`,
  })
  const { base, tempo, treasury } = day.environment
  const wallets = await day.environment.sql<{ address: string }[]>`
    select address from wallets union select address from fleet_wallets`
  await assertLedgerMatchesChain(day, base, 'base', [
    treasury,
    ...wallets.map(({ address }) => address),
  ])
  await assertLedgerMatchesChain(day, tempo, 'tempo', [treasury])
  const { code, said } = await day.environment.gas('verify')
  assertExpectation(code === 0, '`gas verify` finds nothing broken', said)
  const rules = said.split('\n').filter((line) => line.startsWith('ok ')).length
  printStep({
    call: 'gas verify',
    result: `${rules} invariants recomputed from the ledger: no difference`,
  })
}

/** What left the account `world:<chain>` is what the station's addresses hold there, to the last micro. */
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
  assertExpectation(
    row?.came === onChain,
    `the ledger has what came over ${name}`,
    `${row?.came} and ${onChain}`,
  )
  const [treasury = 0n, ...wallets] = held.map((balance) => roundUsdc(Number(balance) / 1e6))
  const inWallets = wallets.reduce<number>((sum, balance) => roundUsdc(sum + Number(balance)), 0)
  const result = `treasury ${treasury}${wallets.length === 0 ? '' : `, wallets ${inWallets}`}`
  const call = `USDC.balanceOf(…)  on ${name === 'base' ? 'Base' : 'Tempo'}`
  printStep({ call, result, remaining: `ledger ${roundUsdc(Number(onChain) / 1e6)}: the same` })
}

import type { LocalChain } from '../chain/local-chain.ts'
import { usdc, type Day } from './day.ts'
import { settled } from './paying.ts'
import { chapter, insist, tell } from './telling.ts'

/** The ledger against the chains, and against itself. */
export async function booksAgree(day: Day): Promise<void> {
  chapter('The books')
  for (const id of day.settlements) await settled(day, id)
  tell({
    call: 'GET /api/x402/settlements/{id}',
    status: 200,
    said: `${day.settlements.size} payments on Base, all settled`,
  })
  const { base, tempo, treasury } = day.world
  const wallets = await day.world.sql<{ address: string }[]>`
    select address from wallets union select address from fleet_wallets`
  await agrees(day, base, 'base', [treasury, ...wallets.map(({ address }) => address)])
  await agrees(day, tempo, 'tempo', [treasury])
  const { code, said } = await day.world.gas('verify')
  insist(code === 0, '`gas verify` finds nothing broken', said)
  const rules = said.split('\n').filter((line) => line.startsWith('ok ')).length
  tell({
    call: 'gas verify',
    said: `${rules} invariants recomputed from the ledger: no difference`,
  })
}

/** What left the account `world:<chain>` is what the station's addresses hold there, to the last micro. */
async function agrees(
  { world }: Day,
  chain: LocalChain,
  name: string,
  addresses: readonly string[],
): Promise<void> {
  const held = await Promise.all(addresses.map((address) => chain.balanceOf(address)))
  const onChain = held.reduce((sum, balance) => sum + balance, 0n)
  const [row] = await world.sql<{ came: bigint }[]>`
    select coalesce(sum(case when debit = ${`world:${name}`} then amount_micros else -amount_micros end), 0)::bigint
        as came
      from transfers where ${`world:${name}`} in (debit, credit)`
  insist(
    row?.came === onChain,
    `the ledger has what came over ${name}`,
    `${row?.came} and ${onChain}`,
  )
  const [treasury = 0n, ...wallets] = held.map((balance) => usdc(Number(balance) / 1e6))
  const inWallets = wallets.reduce<number>((sum, balance) => usdc(sum + Number(balance)), 0)
  const said = `treasury ${treasury}${wallets.length === 0 ? '' : `, wallets ${inWallets}`}`
  const call = `USDC.balanceOf(…)  on ${name === 'base' ? 'Base' : 'Tempo'}`
  tell({ call, said, left: `ledger ${usdc(Number(onChain) / 1e6)}: the same` })
}

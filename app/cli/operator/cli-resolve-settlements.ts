import {
  recordPaymentLostCommand,
  recordPaymentSettledCommand,
  recordPaymentOutcomeUnknownCommand,
} from '../../../payments/commands/settlement-commands.ts'
import { settlementLoadOptions } from '../../../payments/commands/payment-claim-commands.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import {
  createSettlementQueries,
  type OpenSettlement,
} from '../../../persistence/payments/settlement-queries.ts'
import { printJson } from '../cli-output.ts'
import { withCliActorRuntime } from './temporary-actor-runtime-for-cli.ts'

/** The `gas settlement` command. */

const print = (text: string) => void process.stdout.write(`${text}\n`)
const SHOWN = 100
/** A Solana transaction signature. */
const SIGNATURE = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/

/** Lists payments whose outcome is unknown for longer than `settleStuckMs`. */
export async function listUnresolvedSettlements(sql: Sql, asJson: boolean): Promise<number> {
  const stuck = await createSettlementQueries(sql).stuck(SHOWN)
  if (asJson) {
    for (const { id, chain, money, delivery, payer, txHash } of stuck)
      printJson({ id, chain, money, delivery, payer, tx_hash: txHash })
    return 0
  }
  if (stuck.length === 0) print('no settlement is stuck')
  for (const { id, chain, money, delivery, payer, txHash } of stuck)
    print(`${id}  ${chain}  ${money}/${delivery}  ${payer}  ${txHash ?? 'no transaction named'}`)
  return 0
}

/**
 * Sets the final outcome of a Solana payment: settled by a transaction, or lost, after which the
 * payer must pay again. On other chains only the chain decides.
 */
export async function resolveSolanaSettlementByOperator(
  sql: Sql,
  id: string,
  signature: string | null,
): Promise<number> {
  const store = createSettlementQueries(sql)
  const found = await store.find(id)
  const refusal = found === null ? `there is no ${id}` : refusalOf(found, signature)
  if (found === null || refusal !== null) return failResolution(refusal ?? '')
  const booked = signature === null ? null : await store.bookedFor('solana', signature, 0)
  if (booked !== null) return failResolution(`${signature} has settled ${booked}`)
  const { money } = await withCliActorRuntime(sql, async ({ ask }) => {
    const { payer } = found
    const named = { settlement: id }
    if (found.money === 'submitted')
      await ask(payer, recordPaymentOutcomeUnknownCommand, named, settlementLoadOptions(id))
    return signature === null
      ? ask(payer, recordPaymentLostCommand, { ...named, lookAt: null }, settlementLoadOptions(id))
      : ask(
          payer,
          recordPaymentSettledCommand,
          { ...named, tx: signature, logIndex: 0, block: 0n },
          settlementLoadOptions(id),
        )
  })
  print(`${id} is ${money}`)
  return 0
}

function refusalOf({ id, chain, money }: OpenSettlement, signature: string | null): string | null {
  if (chain !== 'solana') return `the chain itself says what becomes of ${id}: it is on ${chain}`
  if (signature !== null && !SIGNATURE.test(signature)) return `${signature} is no transaction`
  const open = money === 'unknown' || money === 'submitted'
  if (open || (money === 'lost' && signature !== null)) return null
  return `${id} is ${money}`
}

function failResolution(why: string): number {
  console.error(`gas settlement: ${why}`)
  return 1
}

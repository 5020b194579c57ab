import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { addMicros, asMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The results of a referrer's code. */
export interface ReferralEarningsSummary {
  readonly referred: number
  /** How many of them have made their first deposit (decision 26). */
  readonly activated: number
  /** For activations, as promotional credits. */
  readonly rewards: Micros
  /** Paid-out shares of calls, and their promotional part. */
  readonly paidOut: Micros
  readonly paidOutPromo: Micros
  /** Agents made with its bundles, and what their calls have earned it. */
  readonly children: number
  readonly genesisShares: Micros
}

/** Stores referral codes and pays out what they earn. */
export function createReferralStore(sql: Sql) {
  return {
    /** The agent that owns a code, or null. */
    async ownerOf(code: string): Promise<string | null> {
      const [row] = await sql<{ agent_id: string }[]>`
        select agent_id from referral_codes where code = ${code}`
      return row?.agent_id ?? null
    },

    /** The agent that bought a bundle of a new agent; null without one. */
    async creatorOfBundle(bundleId: string): Promise<string | null> {
      const [row] = await sql<{ creator_id: string | null }[]>`
        select creator_id from forged_bundles where id = ${bundleId}::uuid`
      return row?.creator_id ?? null
    },

    async codeOf(agentId: string): Promise<string | null> {
      const [row] = await sql<{ code: string }[]>`
        select code from referral_codes where agent_id = ${agentId}`
      return row?.code ?? null
    },

    /** Returns an agent's code; stores `code` if it had none. */
    async create(
      tx: DatabaseTransaction,
      agentId: string,
      code: string,
      at: Date,
    ): Promise<string> {
      await tx`
        insert into referral_codes (code, agent_id, created_at) values (${code}, ${agentId}, ${at})
        on conflict (agent_id) do nothing`
      const [row] = await tx<{ code: string }[]>`
        select code from referral_codes where agent_id = ${agentId}`
      return row?.code ?? code
    },

    async earningsOf(agentId: string): Promise<ReferralEarningsSummary> {
      const [row] = await sql<EarningsRow[]>`
        select (select count(*) from agents
                 where referral_code = (select code from referral_codes where agent_id = ${agentId})
               ) as referred,
               (select count(*) from ledger
                 where kind = 'referral' and credit = ${promoAccount(agentId)}) as activated,
               (select coalesce(sum(amount_micros), 0)::bigint from ledger
                 where kind = 'referral' and credit = ${promoAccount(agentId)}) as rewards,
               (select coalesce(sum(amount_micros), 0)::bigint from ledger
                 where debit = ${referralAccount(agentId, 'cash')} and debit like 'referral:%'
                   and kind = 'payout') as paid_out,
               (select coalesce(sum(amount_micros), 0)::bigint from ledger
                 where debit = ${referralAccount(agentId, 'promo')} and debit like 'referral:%'
                   and kind = 'payout') as paid_out_promo,
               (select count(*) from forged_bundles f join agents a on a.source = 'genesis:' || f.id
                 where f.creator_id = ${agentId}) as children,
               (select coalesce(sum(amount_micros), 0)::bigint from ledger
                 where credit in (${referralAccount(agentId, 'cash')}, ${referralAccount(agentId, 'promo')})
                   and credit like 'referral:%' and kind = 'fee') as genesis_shares`
      return {
        referred: Number(row?.referred ?? 0n),
        activated: Number(row?.activated ?? 0n),
        rewards: asMicros(row?.rewards ?? 0n),
        paidOut: asMicros((row?.paid_out ?? 0n) + (row?.paid_out_promo ?? 0n)),
        paidOutPromo: asMicros(row?.paid_out_promo ?? 0n),
        children: Number(row?.children ?? 0n),
        genesisShares: asMicros(row?.genesis_shares ?? 0n),
      }
    },

    /**
     * Moves accrued earnings to the referrer's inbox, cash as cash and promotional credits as such.
     * A lock per referrer, over all nodes, prevents double payouts.
     */
    async payOut(agentId: string, at: Date): Promise<Micros> {
      return sql.begin(async (tx) => {
        await tx`select pg_advisory_xact_lock(hashtextextended(${`referral:${agentId}`}, 0))`
        const parts = { promo: ZERO_MICROS, cash: ZERO_MICROS }
        for (const part of CREDIT_PARTS) {
          const account = referralAccount(agentId, part)
          const amount = await readAccruedBalance(tx, account)
          if (amount <= ZERO_MICROS) continue
          await tx`
            insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
            values (${newUuidV7(at.getTime())}, ${agentId}, ${account}, ${`agent:${agentId}:${part}`},
                    ${amount}, 'payout', ${at})`
          parts[part] = amount
        }
        const amount = addMicros(parts.promo, parts.cash)
        if (amount === ZERO_MICROS) return ZERO_MICROS
        await tx`
          insert into inbox (receiver, receiver_kind, id, event, at)
          values (${agentId}, 'agent', ${`payout:${newUuidV7(at.getTime())}`},
                  ${stringifyWithBigints({ type: 'CREDIT', ...parts })}::text::jsonb, ${at})`
        const told = { source: 'referral_share', amount_usdc: toUsdc(amount) }
        await tx`
          insert into outbox (agent_id, type, data, at)
          values (${agentId}, 'topup', ${JSON.stringify(told)}::text::jsonb, ${at})`
        return amount
      })
    },
  }
}
export type ReferralStore = ReturnType<typeof createReferralStore>

// The account names of payments/ledger-accounts.ts, which this layer cannot import.
const CREDIT_PARTS = ['promo', 'cash'] as const
const referralAccount = (agentId: string, part: (typeof CREDIT_PARTS)[number]) =>
  part === 'promo' ? `referral:${agentId}:promo` : `referral:${agentId}`
const promoAccount = (agentId: string) => `agent:${agentId}:promo`

/** The condition on the prefix matches the index. */
async function readAccruedBalance(tx: DatabaseTransaction, account: string): Promise<Micros> {
  const [row] = await tx<{ balance: bigint }[]>`
    select (coalesce((select sum(amount_micros) from ledger
                       where credit = ${account} and credit like 'referral:%'), 0)
          - coalesce((select sum(amount_micros) from ledger
                       where debit = ${account} and debit like 'referral:%'), 0))::bigint as balance`
  return asMicros(row?.balance ?? 0n)
}

interface EarningsRow {
  referred: bigint
  activated: bigint
  rewards: bigint
  paid_out: bigint
  paid_out_promo: bigint
  children: bigint
  genesis_shares: bigint
}

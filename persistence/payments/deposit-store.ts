import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import { assertLedgerMovementPermitted } from '../../domain/ledger-movements.ts'
import type { InboxMessage, LedgerTransfer } from '../../core/aggregate-commit-row-types.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Deposits, and the read position of each chain. */

export type DepositState = 'provisional' | 'final' | 'reorged'

/** A transfer of USDC to one of our addresses, as a log of its chain; addresses in lower case. */
export interface IncomingUsdcTransfer {
  readonly tx: string
  readonly logIndex: number
  readonly block: bigint
  readonly blockHash: string
  readonly from: string
  readonly to: string
  readonly amount: Micros
}

/** The position of an arrival on the chain, and how often it has been credited, including now. */
export interface DepositLogPosition {
  readonly chain: string
  readonly tx: string
  readonly logIndex: number
  readonly blockHash: string
  readonly times: number
}

export interface DepositRecord extends DepositLogPosition {
  readonly id: string
  readonly agentId: string
  readonly address: string
  readonly from: string
  readonly amount: Micros
  readonly block: bigint
  readonly state: DepositState
  /** When it was first read with enough confirmations. */
  readonly seenAt: Date
}

/** A deposit as its agent sees it. */
export interface ListedDeposit extends DepositRecord {
  /** When its amount became credits; null while it waits below the minimum, or for its agent. */
  readonly creditedAt: Date | null
  /** The promotional credits added to it. */
  readonly bonus: Micros
}

export interface ChainBlockId {
  readonly number: bigint
  readonly hash: string
}

/** How far a chain was read, with the known blocks since its last final one, newest first. */
export interface ChainCheckpoint {
  readonly next: bigint
  readonly blocks: readonly ChainBlockId[]
}

/** A range of blocks that has been read. */
export interface ScannedBlockRange {
  readonly from: bigint
  readonly to: bigint
  /** The block before it, as it was when it was read. */
  readonly after: ChainBlockId | null
  /** The hashes to remember. */
  readonly blocks: readonly ChainBlockId[]
  readonly finalized: bigint
  /** In chain order. */
  readonly arrivals: readonly IncomingUsdcTransfer[]
  readonly at: Date
}

/** The ledger row and the inbox message of one deposit. */
export interface DepositLedgerBooking {
  readonly transfer: LedgerTransfer
  readonly message: InboxMessage
}
export type DepositBookingFactory = (deposit: DepositRecord) => DepositLedgerBooking
export type DepositReversalFactory = (deposit: DepositRecord) => InboxMessage

/** A wallet's balance by the ledger, for comparison with the chain. */
export interface WalletLedgerBalance {
  readonly agentId: string
  readonly address: string
  readonly amount: Micros
}

/**
 * Stores the deposits of all agents and the read position of each chain. Every change is one
 * transaction and applies only if the reader started at the current position: a late reader changes
 * nothing.
 */
export function createDepositStore(sql: Sql) {
  return {
    async checkpoint(chain: string): Promise<ChainCheckpoint | null> {
      const [row] = await sql<{ next_block: bigint; blocks: string[] }[]>`
        select c.next_block, array(select b.number || ' ' || b.hash from chain_blocks b
                 where b.chain = c.chain order by b.number desc)::text[] as blocks
          from chain_checkpoints c where c.chain = ${chain}`
      return row === undefined
        ? null
        : { next: row.next_block, blocks: row.blocks.map(parseBlockId) }
    },

    /** Sets the first position of a chain; an earlier one of another node is kept. */
    async begin(chain: string, next: bigint, before: ChainBlockId | null, at: Date): Promise<void> {
      await sql.begin(async (tx) => {
        await lockChain(tx, chain)
        const begun = await tx`
          insert into chain_checkpoints values (${chain}, ${next}, -1, ${at}) on conflict do nothing`
        if (begun.count === 1 && before !== null) await insertBlocks(tx, chain, [before])
      })
    },

    /**
     * Books the arrivals of a range, each once despite crashes, and marks blocks that became final.
     * Returns the credited agents; null if another reader was first.
     */
    async advance(
      chain: string,
      stretch: ScannedBlockRange,
      book: DepositBookingFactory,
    ): Promise<string[] | null> {
      const { from, to, after, blocks, finalized, arrivals, at } = stretch
      return sql.begin(async (tx) => {
        if (!(await isCheckpointAt(tx, chain, from, after))) return null
        const agents = await bookTransfers(tx, chain, arrivals, at, book)
        await insertBlocks(tx, chain, blocks)
        await tx`update chain_checkpoints set next_block = ${to + 1n}, at = ${at},
          finalized = greatest(finalized, ${finalized}) where chain = ${chain}`
        await tx`update deposits set state = 'final'
          where chain = ${chain} and state = 'provisional' and block <= least(${finalized}, ${to}::bigint)`
        await tx`delete from chain_blocks where chain = ${chain} and number < (
          select max(number) from chain_blocks where chain = ${chain} and number <= ${finalized})`
        return agents
      })
    },

    /**
     * Reverses the arrivals of blocks above `ancestor`, which are no longer part of the chain.
     * Returns the affected agents; null if another reader was first.
     */
    async rewind(
      chain: string,
      history: { next: bigint; after: ChainBlockId; ancestor: bigint; at: Date },
      unbook: DepositReversalFactory,
    ): Promise<string[] | null> {
      const { next, after, ancestor, at } = history
      return sql.begin(async (tx) => {
        if (!(await isCheckpointAt(tx, chain, next, after))) return null
        const undone = await tx<DepositRow[]>`
          update deposits set state = 'reorged'
           where chain = ${chain} and state = 'provisional' and block > ${ancestor} returning *`
        const deposits = undone.map(fromRow).sort(compareByLogPosition)
        for (const deposit of deposits) {
          // Frees its position: after a reorganisation another transfer may be there.
          await tx`delete from chain_transfers where chain = ${chain} and tx = ${deposit.tx}
            and log_index = ${deposit.logIndex} and kind = 'deposit'`
          await insertInboxMessage(tx, unbook(deposit))
        }
        await tx`delete from chain_blocks where chain = ${chain} and number > ${ancestor}`
        await tx`update chain_checkpoints set next_block = ${ancestor + 1n}, at = ${at}
          where chain = ${chain}`
        return [...new Set(deposits.map(({ agentId }) => agentId))]
      })
    },

    /** Books arrivals that an earlier read missed; known ones are skipped. */
    async creditLate(
      chain: string,
      arrivals: readonly IncomingUsdcTransfer[],
      at: Date,
      book: DepositBookingFactory,
    ) {
      return sql.begin(async (tx) => {
        await lockChain(tx, chain)
        return bookTransfers(tx, chain, arrivals, at, book)
      })
    },

    /** The deposits of an agent, newest first; `before` is the id of the last one seen. */
    async listOf(agentId: string, limit: number, before: string | null): Promise<ListedDeposit[]> {
      const rows = await sql<DepositListingRow[]>`
        select d.*, ${creditedAtSql(sql)} as credited_at, coalesce(c.bonus_micros, 0)::bigint as bonus
          from deposits d ${joinCreditsSql(sql)}
         where d.agent_id = ${agentId} and (${before}::uuid is null or d.id < ${before}::uuid)
         order by d.id desc limit ${limit}`
      return rows.map(toDepositListing)
    },

    /** What the agent was credited when it last absorbed an arrival; null until then. */
    async creditOf(arrival: string): Promise<{ credited: Micros; bonus: Micros } | null> {
      const [row] = await sql<{ credited_micros: bigint; bonus_micros: bigint }[]>`
        select credited_micros, bonus_micros from deposit_credits
         where arrival = ${arrival} order by at desc, id desc limit 1`
      if (row === undefined) return null
      return { credited: asMicros(row.credited_micros), bonus: asMicros(row.bonus_micros) }
    },

    /** The total of an agent's valid arrivals. */
    async totalOf(agentId: string): Promise<Micros> {
      const [row] = await sql<{ total: bigint }[]>`
        select coalesce(sum(amount_micros), 0)::bigint as total from deposits
         where agent_id = ${agentId} and state <> 'reorged'`
      return asMicros(row?.total ?? 0n)
    },

    /** What each deposit wallet should have held at a block; excludes wallets being swept. */
    async bookedAt(chain: string, block: bigint): Promise<WalletLedgerBalance[]> {
      const rows = await sql<{ agent_id: string; address: string; amount: bigint }[]>`
        select w.agent_id, lower(w.address) as address,
               (coalesce((select sum(d.amount_micros) from deposits d where d.chain = ${chain}
                   and d.address = lower(w.address) and d.state <> 'reorged' and d.block <= ${block}), 0)
              - coalesce((select sum(s.amount_micros) from sweeps s where s.chain = ${chain}
                   and s.address = lower(w.address) and s.state = 'done' and s.block <= ${block}), 0))::bigint as amount
          from wallets w where w.status = 'active' and not exists (select from sweeps s
           where s.chain = ${chain} and s.address = lower(w.address) and s.state = 'open')`
      return rows.map((row) => ({
        agentId: row.agent_id,
        address: row.address,
        amount: asMicros(row.amount),
      }))
    },
  }
}
export type DepositStore = ReturnType<typeof createDepositStore>

async function lockChain(tx: DatabaseTransaction, chain: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`deposits:${chain}`}, 0))`
}

/** The number alone is ambiguous: another reader may have rewound and come here by other blocks. */
async function isCheckpointAt(
  tx: DatabaseTransaction,
  chain: string,
  next: bigint,
  after: ChainBlockId | null,
) {
  await lockChain(tx, chain)
  const [row] = await tx<{ next_block: bigint; hash: string | null }[]>`
    select c.next_block, (select b.hash from chain_blocks b
             where b.chain = c.chain and b.number = c.next_block - 1) as hash
      from chain_checkpoints c where c.chain = ${chain}`
  return row?.next_block === next && row.hash === (after?.hash ?? null)
}

async function insertBlocks(
  tx: DatabaseTransaction,
  chain: string,
  blocks: readonly ChainBlockId[],
): Promise<void> {
  for (const { number, hash } of blocks) {
    await tx`insert into chain_blocks values (${chain}, ${number}, ${hash})`
  }
}

async function bookTransfers(
  tx: DatabaseTransaction,
  chain: string,
  arrivals: readonly IncomingUsdcTransfer[],
  at: Date,
  book: DepositBookingFactory,
): Promise<string[]> {
  const agents = new Set<string>()
  for (const arrival of arrivals) {
    const deposit = await insertDeposit(tx, chain, arrival, at)
    if (deposit === null) continue
    const { transfer, message } = book(deposit)
    assertLedgerMovementPermitted(transfer)
    await tx`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, memo, at)
      values (${newUuidV7(at.getTime())}, ${deposit.agentId}, ${transfer.debit}, ${transfer.credit},
              ${transfer.amount}, ${transfer.kind}, null, null, clock_timestamp())`
    await insertInboxMessage(tx, message)
    agents.add(deposit.agentId)
  }
  return [...agents]
}

/** Null if no deposit wallet has the address, or it was booked before in any way. */
async function insertDeposit(
  tx: DatabaseTransaction,
  chain: string,
  one: IncomingUsdcTransfer,
  at: Date,
): Promise<DepositRecord | null> {
  // Locked until the commit: a wallet being exported is credited before the export, or not at all.
  const [wallet] = await tx<{ agent_id: string }[]>`
    select agent_id from wallets where lower(address) = ${one.to} and status = 'active' for share`
  if (wallet === undefined) return null
  const id = newUuidV7(at.getTime())
  const claimed = await tx`insert into chain_transfers (chain, tx, log_index, kind, ref, at)
    values (${chain}, ${one.tx}, ${one.logIndex}, 'deposit', ${id}, clock_timestamp())
    on conflict do nothing`
  if (claimed.count === 0) return null
  const [row] = await tx<DepositRow[]>`
    insert into deposits as d (chain, tx, log_index, id, agent_id, address, sender, amount_micros,
                               block, block_hash, state, times, seen_at, booked_at)
    values (${chain}, ${one.tx}, ${one.logIndex}, ${id}, ${wallet.agent_id}, ${one.to}, ${one.from},
            ${one.amount}, ${one.block}, ${one.blockHash}, 'provisional', 1, ${at}, ${at})
    on conflict (chain, tx, log_index) do update
      set id = excluded.id, agent_id = excluded.agent_id, address = excluded.address,
          sender = excluded.sender, amount_micros = excluded.amount_micros, block = excluded.block,
          block_hash = excluded.block_hash, state = 'provisional', times = d.times + 1,
          booked_at = excluded.booked_at where d.state = 'reorged'
    returning *`
  if (row === undefined) throw new Error(`${one.tx} ${one.logIndex} is a deposit without its claim`)
  return fromRow(row)
}

/** `clock_timestamp()` orders them: of two deposits in a block only one is the first. */
async function insertInboxMessage(
  tx: DatabaseTransaction,
  { receiver, receiverKind, id, event }: InboxMessage,
): Promise<void> {
  await tx`insert into inbox (receiver, id, receiver_kind, event, at)
    values (${receiver}, ${id}, ${receiverKind}, ${stringifyWithBigints(event)}::text::jsonb, clock_timestamp())`
}

function parseBlockId(text: string): ChainBlockId {
  const [number = '', hash = ''] = text.split(' ')
  return { number: BigInt(number), hash }
}

const compareByLogPosition = (a: DepositRecord, b: DepositRecord): number =>
  a.block === b.block ? a.logIndex - b.logIndex : Number(a.block - b.block)

interface DepositRow {
  chain: string
  tx: string
  log_index: number
  id: string
  agent_id: string
  address: string
  sender: string
  amount_micros: bigint
  block: bigint
  block_hash: string
  state: DepositState
  times: number
  seen_at: Date
}

interface DepositListingRow extends DepositRow {
  credited_at: Date | null
  bonus: bigint
}

/**
 * The id of a deposit in messages to its agent; a deposit credited again after a reorg gets
 * another.
 */
export const depositMessageId = ({
  chain,
  tx,
  logIndex,
  blockHash,
  times,
}: DepositLogPosition): string =>
  `deposit:${chain}:${tx}:${logIndex}:${blockHash}${times === 1 ? '' : `:${times}`}`

/**
 * What the agent absorbed under the id of a deposit; the expression is that of `depositMessageId`.
 */
const joinCreditsSql = (sql: Sql) => sql`left join deposit_credits c on c.arrival =
  'deposit:' || d.chain || ':' || d.tx || ':' || d.log_index || ':' || d.block_hash
  || case d.times when 1 then '' else ':' || d.times end`

/** Its own credit, or that of the next arrival which brought the sum above the minimum. */
const creditedAtSql = (sql: Sql) => sql`case when d.state = 'reorged' or c.id is null then null
  when c.credited_micros > 0 then c.at
  else (select min(n.at) from deposit_credits n where n.agent_id = d.agent_id
          and n.credited_micros > 0 and (n.at, n.id) > (c.at, c.id)) end`

const fromRow = (row: DepositRow): DepositRecord => ({
  chain: row.chain,
  tx: row.tx,
  logIndex: row.log_index,
  id: row.id,
  agentId: row.agent_id,
  address: row.address,
  from: row.sender,
  amount: asMicros(row.amount_micros),
  block: row.block,
  blockHash: row.block_hash,
  state: row.state,
  times: row.times,
  seenAt: row.seen_at,
})

const toDepositListing = (row: DepositListingRow): ListedDeposit => ({
  ...fromRow(row),
  creditedAt: row.credited_at,
  bonus: asMicros(row.bonus),
})

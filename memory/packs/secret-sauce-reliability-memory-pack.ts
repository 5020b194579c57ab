import type { MemoryPackContentEntry } from './memory-pack-entry.ts'

/** Patterns for many agents that run unattended and spend money. */
export const SECRET_SAUCE_RELIABILITY_PACK_ENTRIES: readonly MemoryPackContentEntry[] = [
  {
    content:
      'A lock with a lease does not make its holder alone: a process that pauses longer than the lease wakes up and writes beside the next holder. Give each lease a number that only grows (a fencing token), send it with every write, and let the store refuse a smaller number than it has seen. If the store cannot do that, use a version check on the row itself; then the lock is only there to save work.',
    type: 'skill',
    tags: ['locks', 'fencing', 'concurrency'],
    importance: 0.95,
    source:
      'M. Kleppmann, How to do distributed locking (2016), https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html',
  },
  {
    content:
      'Writing to a database and sending a message are two steps, and a crash falls between them. Put the message as a row into an outbox in the same transaction, and let a relay deliver it afterwards, at least once; the receiver keeps the ids it has handled and ignores repeats. "Exactly once" is at-least-once delivery with idempotent handling; nothing on the wire gives it.',
    type: 'skill',
    tags: ['outbox', 'messaging', 'exactly-once'],
    importance: 0.9,
    source:
      'https://microservices.io/patterns/data/transactional-outbox.html ; P. Helland, Life beyond Distributed Transactions (CIDR 2007)',
  },
  {
    content:
      'For work over several services without a common transaction, write a saga: each step has an action that undoes it in the sense of the business (refund, cancel), and the state of the saga is stored before each step. Order the steps so that what cannot be undone (an e-mail, a broadcast transaction) comes last. Undoing must itself be repeatable, since it is retried until it succeeds.',
    type: 'skill',
    tags: ['saga', 'compensation', 'workflow'],
    importance: 0.85,
    source:
      'H. Garcia-Molina, K. Salem, Sagas, ACM SIGMOD 1987, https://doi.org/10.1145/38713.38742',
  },
  {
    content:
      'With many calls in one task the slow tail rules: if each has a 1 % chance to be slow, of 100 in parallel 63 % of the tasks wait for at least one. Send a second request to another replica once the first has waited as long as the 95th percentile, take whichever answers first, and cancel the other: about 5 % more load. Only for reads, or under one idempotency key.',
    type: 'skill',
    tags: ['latency', 'hedging', 'tail'],
    importance: 0.85,
    source:
      'J. Dean, L. A. Barroso, The Tail at Scale, Communications of the ACM 56 (2013), https://doi.org/10.1145/2408776.2408794 ; arithmetic: 1 - 0.99^100 = 0.634',
  },
  {
    content:
      'ERC-3009 transferWithAuthorization moves USDC by a signature: whoever submits it pays the gas, its nonce is any unused 32 random bytes (not a counter), so several can be open at once, and validAfter and validBefore bound it. It can be submitted by anybody who sees it; a contract that pulls funds for itself should use receiveWithAuthorization, which only the payee can submit. cancelAuthorization withdraws one that is unused.',
    type: 'fact',
    tags: ['erc-3009', 'usdc', 'signatures'],
    importance: 0.9,
    source: 'https://eips.ethereum.org/EIPS/eip-3009',
  },
  {
    content:
      'Before signing typed data compare the whole EIP-712 domain, name, version, chainId and verifyingContract, with what you expect: the same message under another domain is another promise. Look for approvals hidden in it: Permit (EIP-2612), Permit2 and setApprovalForAll hand out more than a transfer. Approve the exact amount, never the maximum, and set it back to zero when done; a simulation before sending shows what leaves.',
    type: 'skill',
    tags: ['eip-712', 'approvals', 'wallet-safety'],
    importance: 0.95,
    source:
      'https://eips.ethereum.org/EIPS/eip-712 ; https://eips.ethereum.org/EIPS/eip-2612 ; https://docs.uniswap.org/contracts/permit2/overview',
  },
  {
    content:
      'A receipt is not final. On a rollup the sequencer confirms within seconds, the batch reaches L1 in minutes, and only a finalized L1 block makes it final: ask for the block tags "safe" and "finalized" instead of counting confirmations. On Ethereum finality takes two epochs, about 13 minutes. Let the amount decide what to wait for, and keep a way to take back what was credited early.',
    type: 'fact',
    tags: ['finality', 'rollups', 'confirmations'],
    importance: 0.85,
    source:
      'https://ethereum.org/en/developers/docs/consensus-mechanisms/pos/ ; https://docs.optimism.io/stack/transactions/transaction-finality',
  },
  {
    content:
      'Put a breaker before each upstream: after a number of failures in a window it opens and answers at once, after a while it lets a single probe through, and closes when that succeeds. Give each upstream a bounded number of slots of its own (a bulkhead), so that a slow one cannot take all workers. And retry at one layer only: three layers with three attempts each turn one request into 27.',
    type: 'skill',
    tags: ['circuit-breaker', 'bulkhead', 'resilience'],
    importance: 0.85,
    source:
      'M. Nygard, Release It!, 2nd edition (2018), chapter 5; https://sre.google/sre-book/addressing-cascading-failures/',
  },
]

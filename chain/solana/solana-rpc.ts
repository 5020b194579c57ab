import { SECOND } from '../../core/clock.ts'
import { isRecord } from '../untrusted-json.ts'
import { requestJson } from '../json-http-client.ts'

/** The node gave no usable answer: the state of the chain is unknown. */
export class SolanaUnavailableError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'SolanaUnavailableError'
  }
}

export interface SolanaRpcOptions {
  readonly rpcUrl: string
  readonly send: typeof fetch
  readonly timeoutMs?: number
}

/** One transaction in the list of an account. */
export interface SolanaSignatureInfo {
  readonly signature: string
  /** Seconds since the epoch by the chain's clock; null if the node does not know it. */
  readonly blockTime: number | null
}

/** A transaction in a final block. */
export interface FinalizedSolanaTransaction {
  readonly slot: bigint
  /** As sent: signatures and message. */
  readonly bytes: Uint8Array
  /** It is in a block but had no effect. */
  readonly failed: boolean
  /** The change of an owner's token balance, in atomic units. */
  tokenGain(owner: string, mint: string): bigint
}

const TIMEOUT_MS = 10 * SECOND
/** A list of 1,000 transactions takes about 300 KB. */
const MAX_RPC_RESPONSE_BYTES = 2 * 1024 * 1024
const FINAL = { commitment: 'finalized' } as const
const CLOCK = 'SysvarC1ock11111111111111111111111111111111'
/**
 * Layout of the clock account: slot, start of the epoch, epoch, next epoch, time; eight bytes each,
 * little-endian.
 */
const CLOCK_TIME_AT = 32
export const SOLANA_SIGNATURES_PAGE_SIZE = 1_000

/**
 * Queries the final blocks of a Solana node (public JSON-RPC). Every method throws
 * `SolanaUnavailableError`, whose message contains only the node's host, since the path of a node
 * is its key.
 */
export function createSolanaRpc({ rpcUrl, send, timeoutMs = TIMEOUT_MS }: SolanaRpcOptions) {
  const { url, shown, headers } = toRpcEndpoint(rpcUrl)

  async function ask<T>(method: string, params: unknown[], read: (result: unknown) => T | null) {
    const body = { jsonrpc: '2.0', id: 1, method, params }
    const asked = { url, send, headers, body, timeoutMs, maxBytes: MAX_RPC_RESPONSE_BYTES }
    const { json } = await requestJson(asked).catch((error: unknown) => {
      throw new SolanaUnavailableError(`${shown} does not answer ${method}`, error)
    })
    if (isRecord(json) && isRecord(json['error'])) {
      const { code, message } = json['error']
      throw new SolanaUnavailableError(
        `${shown} refuses ${method}: ${String(code)} ${String(message)}`,
      )
    }
    const result = isRecord(json) && 'result' in json ? read(json['result']) : null
    if (result === null)
      throw new SolanaUnavailableError(`${shown} answers ${method} in an unknown form`)
    return result
  }

  return {
    /** Identifies the chain. */
    genesisHash: () => ask('getGenesisHash', [], textIn),

    /** The last final block: its slot, and its time in seconds since the epoch. */
    head: () => ask('getAccountInfo', [CLOCK, { ...FINAL, encoding: 'base64' }], headIn),

    /** Whether a transaction with this blockhash can still be included, as of `slot` or later. */
    isBlockhashValid: (blockhash: string, slot: number) =>
      ask('isBlockhashValid', [blockhash, { ...FINAL, minContextSlot: slot }], validIn),

    /** A page of the transactions that name an account, newest first; as of `slot` or later. */
    signaturesOf: (address: string, { slot, before }: { slot: number; before: string | null }) =>
      ask(
        'getSignaturesForAddress',
        [
          address,
          {
            ...FINAL,
            limit: SOLANA_SIGNATURES_PAGE_SIZE,
            minContextSlot: slot,
            ...(before === null ? {} : { before }),
          },
        ],
        listIn,
      ),

    /** Null if no final block has it. */
    transaction: async (signature: string): Promise<FinalizedSolanaTransaction | null> => {
      const how = { ...FINAL, encoding: 'base64', maxSupportedTransactionVersion: 0 }
      const found = await ask('getTransaction', [signature, how], (result) =>
        result === null ? NONE : minedIn(result),
      )
      return found === NONE ? null : (found as FinalizedSolanaTransaction)
    },

    /** Since when the node has all blocks, in seconds; -Infinity for the whole chain. */
    async knownSince(): Promise<number> {
      const first = await ask('getFirstAvailableBlock', [], wholeIn)
      return first === 0 ? -Infinity : ask('getBlockTime', [first], wholeIn)
    },
  }
}
export type SolanaRpc = ReturnType<typeof createSolanaRpc>

const NONE = Symbol('none')

/** A node's URL without credentials, for logs, and its user and password as a header. */
function toRpcEndpoint(rpcUrl: string) {
  const url = new URL(rpcUrl)
  const { username, password } = url
  url.username = url.password = ''
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const headers: Record<string, string> =
    username === '' ? {} : { authorization: `Basic ${btoa(user)}` }
  return { url: url.href, shown: url.origin, headers }
}

const textIn = (value: unknown): string | null => (typeof value === 'string' ? value : null)

const wholeIn = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) ? value : null

const base64In = (value: unknown): Buffer | null => {
  const [text, encoding] = Array.isArray(value) ? (value as unknown[]) : []
  return typeof text === 'string' && encoding === 'base64' ? Buffer.from(text, 'base64') : null
}

function headIn(result: unknown): { slot: number; time: number } | null {
  if (!isRecord(result) || !isRecord(result['context']) || !isRecord(result['value'])) return null
  const slot = wholeIn(result['context']['slot'])
  const data = base64In(result['value']['data'])
  if (slot === null || data === null || data.length < CLOCK_TIME_AT + 8) return null
  return { slot, time: Number(data.readBigInt64LE(CLOCK_TIME_AT)) }
}

const validIn = (result: unknown): boolean | null =>
  isRecord(result) && typeof result['value'] === 'boolean' ? result['value'] : null

function listIn(result: unknown): SolanaSignatureInfo[] | null {
  if (!Array.isArray(result)) return null
  const listed = result.map((one: unknown): SolanaSignatureInfo | null => {
    const signature = isRecord(one) ? textIn(one['signature']) : null
    return isRecord(one) && signature !== null
      ? { signature, blockTime: wholeIn(one['blockTime']) }
      : null
  })
  return listed.every((one) => one !== null) ? listed : null
}

function minedIn(result: unknown): FinalizedSolanaTransaction | null {
  if (!isRecord(result) || !isRecord(result['meta'])) return null
  const [slot, bytes] = [wholeIn(result['slot']), base64In(result['transaction'])]
  const { err, preTokenBalances, postTokenBalances } = result['meta']
  const [before, after] = [balancesIn(preTokenBalances), balancesIn(postTokenBalances)]
  if (slot === null || bytes === null || err === undefined) return null
  if (before === null || after === null) return null
  return {
    slot: BigInt(slot),
    bytes,
    failed: err !== null,
    tokenGain: (owner, mint) => totalOf(after, owner, mint) - totalOf(before, owner, mint),
  }
}

interface TokenBalance {
  readonly owner: string
  readonly mint: string
  readonly amount: bigint
}

function balancesIn(value: unknown): TokenBalance[] | null {
  if (!Array.isArray(value)) return null
  const balances = value.map((one: unknown): TokenBalance | null => {
    if (!isRecord(one) || !isRecord(one['uiTokenAmount'])) return null
    const [owner, mint] = [textIn(one['owner']), textIn(one['mint'])]
    const amount = textIn(one['uiTokenAmount']['amount'])
    if (owner === null || mint === null || amount === null || !/^\d{1,20}$/.test(amount))
      return null
    return { owner, mint, amount: BigInt(amount) }
  })
  return balances.every((one) => one !== null) ? balances : null
}

const totalOf = (balances: readonly TokenBalance[], owner: string, mint: string): bigint =>
  balances
    .filter((one) => one.owner === owner && one.mint === mint)
    .reduce((sum, { amount }) => sum + amount, 0n)

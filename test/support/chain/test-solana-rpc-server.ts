import { randomInt } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { parseSolanaTransfer } from '../../../chain/solana/solana-transaction.ts'
import { startFixtureServer, type TeardownScope } from '../upstreams/fixture-server.ts'

/** A transaction as its block records it. */
export interface LandedTransfer {
  /** Receiving token account and amount in atomic units. */
  readonly to: string
  readonly amount: bigint
  readonly failed?: boolean
}

interface Block extends LandedTransfer {
  readonly signature: string
  readonly payer: string
  readonly base64: string
  readonly slot: number
  readonly time: number
}

const GENESIS = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d'
const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const signature = () => Array.from({ length: 88 }, () => ALPHABET[randomInt(58)]).join('')

/**
 * A Solana RPC node on a real socket with the methods that the service uses; all blocks are final.
 */
export async function startTestSolanaRpc(t: TeardownScope) {
  const blocks: Block[] = []
  const asked: string[] = []
  let genesis = GENESIS
  let first = 0
  let ahead = 0
  let stopped: number | null = null
  let expired = false
  let trouble: 'down' | 'garbage' | 'error' | 'huge' | null = null

  const time = () => stopped ?? Math.floor(Date.now() / 1000) + ahead
  const slotAt = (seconds: number) => Math.floor(seconds * 2.5) - 4_000_000_000
  const context = () => ({ apiVersion: '2.2.0', slot: slotAt(time()) })

  function clockAccount() {
    const data = Buffer.alloc(40)
    data.writeBigUInt64LE(BigInt(slotAt(time())), 0)
    data.writeBigInt64LE(BigInt(time()), 32)
    const value = { data: [data.toString('base64'), 'base64'], lamports: 1, executable: false }
    return { context: context(), value }
  }

  function listOf(address: string, { limit = 1_000, before }: { limit?: number; before?: string }) {
    const all = blocks.filter(({ payer }) => payer === address).reverse()
    const from = before === undefined ? 0 : all.findIndex((one) => one.signature === before) + 1
    return all.slice(from, from + limit).map((one) => ({
      signature: one.signature,
      slot: one.slot,
      err: one.failed === true ? { InstructionError: [2, { Custom: 1 }] } : null,
      memo: null,
      blockTime: one.time,
      confirmationStatus: 'finalized',
    }))
  }

  function transactionOf(wanted: string) {
    const found = blocks.find((one) => one.signature === wanted)
    if (found === undefined) return null
    const { amount, to, payer, failed = false } = found
    const moved = failed ? 0n : amount
    const held = (owner: string, value: bigint) => ({
      accountIndex: 3,
      mint: PAYMENT_NETWORKS.solana.asset,
      owner,
      programId: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
      uiTokenAmount: { amount: String(value), decimals: 6, uiAmountString: '…', uiAmount: null },
    })
    return {
      slot: found.slot,
      blockTime: found.time,
      version: 0,
      transaction: [found.base64, 'base64'],
      meta: {
        err: failed ? { InstructionError: [2, { Custom: 1 }] } : null,
        fee: 10_000,
        preTokenBalances: [held(payer, 1_000_000n), held(to, 70n)],
        postTokenBalances: [held(payer, 1_000_000n - moved), held(to, 70n + moved)],
      },
    }
  }

  function resultOf(method: string, params: readonly unknown[]): unknown {
    const [one, how] = params as [string, { limit?: number; before?: string }]
    switch (method) {
      case 'getGenesisHash':
        return genesis
      case 'getAccountInfo':
        return clockAccount()
      case 'isBlockhashValid':
        return { context: context(), value: !expired }
      case 'getSignaturesForAddress':
        return listOf(one, how)
      case 'getTransaction':
        return transactionOf(one)
      case 'getFirstAvailableBlock':
        return first === 0 ? 0 : slotAt(first)
      case 'getBlockTime':
        return first
      default:
        throw new Error(`the node does not know ${method}`)
    }
  }

  function answer(response: ServerResponse, { method, params, id }: Request): void {
    asked.push(method)
    const error = { code: -32011, message: 'Transaction history is not available from this node' }
    const body = {
      down: '',
      garbage: JSON.stringify({ jsonrpc: '2.0', id, result: { value: {} } }),
      error: JSON.stringify({ jsonrpc: '2.0', id, error }),
      huge: `"${'x'.repeat(4 * 1024 * 1024)}"`,
    }
    response.writeHead(trouble === 'down' ? 503 : 200, { 'content-type': 'application/json' })
    if (trouble !== null) return void response.end(body[trouble])
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: resultOf(method, params) }))
  }

  const { base } = await startFixtureServer(t, (request, response) => {
    json(request)
      .then((body) => answer(response, body as Request))
      .catch(() => response.destroy())
  })
  return {
    url: base,
    /** Requested methods, in order. */
    asked,
    /**
     * Puts a signed transaction into a block with the fee payer's signature; returns its signature.
     */
    land(transaction: string, landing: LandedTransfer): string {
      const bytes = Buffer.from(transaction, 'base64')
      bytes.fill(7, 1, 65)
      const named = signature()
      const base64 = bytes.toString('base64')
      const payer = parseSolanaTransfer(bytes)?.payer ?? ''
      blocks.push({
        ...landing,
        signature: named,
        payer,
        base64,
        time: time(),
        slot: slotAt(time()),
      })
      return named
    },
    /** Advances the chain's time. */
    pass: (seconds: number) => void (ahead += seconds),
    stop: (stops: boolean) => void (stopped = stops ? time() : null),
    /** Makes every transaction signed until now expire. */
    expire: (expires: boolean) => void (expired = expires),
    /** First block time that the node still has, in seconds; 0 for the full history. */
    knowsSince: (seconds: number) => void (first = seconds),
    /** Returns another genesis hash, as a node of another chain does. */
    isOf: (hash: string = GENESIS) => void (genesis = hash),
    fail: (how: typeof trouble) => void (trouble = how),
  }
}

interface Request {
  readonly method: string
  readonly params: readonly unknown[]
  readonly id: number
}

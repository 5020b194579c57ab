import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** The fate of a request: passed on, lost, or executed without its reply. */
export type RpcFault = 'pass' | 'lost' | 'unanswered'

/** Matches a method, given all methods of the same request. */
type LagPredicate = (method: string, beside: readonly string[]) => boolean

interface RpcRequest {
  readonly id: unknown
  readonly method: string
  readonly params?: readonly unknown[]
}
interface RpcReply {
  readonly id: unknown
  readonly result?: unknown
}

/** Index of the block parameter by method. */
const BLOCK_PARAM_INDEX: Readonly<Record<string, number>> = {
  eth_call: 1,
  eth_estimateGas: 1,
  eth_getBalance: 1,
  eth_getBlockByNumber: 0,
  eth_getCode: 1,
  eth_getTransactionCount: 1,
}
const hex = (block: bigint) => `0x${block.toString(16)}`
const isAfter = (text: unknown, block: bigint) =>
  typeof text === 'string' && text.startsWith('0x') && BigInt(text) > block

/** Rewrites a request as a node at an older block would evaluate it. */
function requestAtBlock(block: bigint, asked: RpcRequest): RpcRequest {
  const at = BLOCK_PARAM_INDEX[asked.method]
  if (at === undefined) return asked
  const params = [...(asked.params ?? [])]
  if ((params[at] ?? 'latest') === 'latest') params[at] = hex(block)
  return { ...asked, params }
}

/** Hides newer blocks from a reply. */
function replyAtBlock(
  block: bigint,
  { method, params = [] }: RpcRequest,
  answer: RpcReply,
): unknown {
  const { id, result } = answer
  if (method === 'eth_blockNumber') return { ...answer, result: hex(block) }
  const at = BLOCK_PARAM_INDEX[method]
  if (at !== undefined && isAfter(params[at], block))
    return { jsonrpc: '2.0', id, error: { code: -32000, message: 'header not found' } }
  const mined = (one: unknown) => (one as { blockNumber?: unknown } | null)?.blockNumber
  if (method === 'eth_getLogs' && Array.isArray(result))
    return { ...answer, result: result.filter((log) => !isAfter(mined(log), block)) }
  return isAfter(mined(result), block) ? { ...answer, result: null } : answer
}

interface Teardown {
  teardown(work: () => unknown): unknown
}

/** An HTTP proxy between a client and a node that can lose requests. */
export async function startRpcFaultProxy(t: Teardown, target: string) {
  let fateOf: (method: string) => RpcFault | Promise<RpcFault> = () => 'pass'
  let answering: (methods: readonly string[]) => unknown = () => {}
  const seen: string[] = []
  let lag: { block: bigint; when: LagPredicate } | null = null
  const behind = (method: string, beside: readonly string[]): bigint | null =>
    lag?.when(method, beside) === true ? lag.block : null

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = JSON.parse(await text(request)) as RpcRequest | RpcRequest[]
    const all = [body].flat()
    const methods = all.map(({ method }) => method)
    seen.push(...methods)
    const fates = await Promise.all(methods.map(async (method) => fateOf(method)))
    if (fates.includes('lost')) return void request.socket.destroy()
    const passed = all.map((one) => {
      const block = behind(one.method, methods)
      return block === null ? one : requestAtBlock(block, one)
    })
    const answer = await fetch(target, {
      method: 'POST',
      body: JSON.stringify(Array.isArray(body) ? passed : passed[0]),
      headers: { 'content-type': 'application/json' },
    })
    const told = (await answer.json()) as RpcReply | RpcReply[]
    const shown = (one: RpcReply) => {
      const asked = passed.find(({ id }) => id === one.id)
      const block = asked === undefined ? null : behind(asked.method, methods)
      return block === null || asked === undefined ? one : replyAtBlock(block, asked, one)
    }
    const said = JSON.stringify(Array.isArray(told) ? told.map(shown) : shown(told))
    await answering(methods)
    if (fates.includes('unanswered')) return void request.socket.destroy()
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(said)
  }

  const server = createServer((request, response) => {
    pass(request, response).catch(() => request.socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Requested methods, in order. */
    seen,
    /** Sets the fate of later requests by method; a request waits for the decision. */
    decide(fate: (method: string) => RpcFault | Promise<RpcFault>): void {
      fateOf = fate
    },
    /** Runs `work` between the node's reply and its return to the client. */
    beforeAnswers(work: (methods: readonly string[]) => unknown): void {
      answering = work
    },
    /**
     * Answers the requests that `when` matches as a node at this block would; null turns it off.
     */
    behind(block: bigint | null, when: LagPredicate = () => true): void {
      lag = block === null ? null : { block, when }
    },
  }
}

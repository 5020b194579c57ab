import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Bounds what the pipelined requests of one connection take from the others. */

/** Requests of one connection that are handled at the same time. */
const MAX_IN_PROGRESS = 16
/** Requests of one connection that are read and not started; above it nothing more is read. */
const MAX_WAITING = 64
/** Pipelined requests, over all connections, that start in one turn of the event loop. */
const MAX_STARTS_PER_TURN = 16

/** The requests of one connection. Responses end in this order. */
interface Pipeline {
  readonly socket: Socket
  /** Responses of started requests; those at the front may be over. */
  readonly started: ServerResponse[]
  readonly waiting: { readonly request: IncomingMessage; readonly response: ServerResponse }[]
  /** The started response whose end is not listened to: nothing waited for it so far. */
  unwatched: ServerResponse | null
  /** Whether reading pauses; null before the first pause. */
  paused: boolean | null
}

/**
 * Starts pipelined requests by turns. Node emits all requests of a chunk at once, hundreds of them, and reads
 * on while answers wait for a slow reader. Here a request behind another one waits for a later turn of the
 * event loop, in which each connection starts one before any starts its second. A connection has at most
 * `MAX_IN_PROGRESS` requests in progress, and starts none while its reader is behind. The first request of a
 * connection, and each that comes after the last answer, starts at once.
 */
export function installPipeliningLimit(server: Server): void {
  const [handle] = server.listeners('request') as RequestListener[]
  if (handle === undefined) throw new Error('the server has no handler of requests')
  const pipelines = new WeakMap<Socket, Pipeline>()
  /** Pipelines that may start a request, in the order of their turns. */
  const ready = new Set<Pipeline>()
  let turning = false

  function receive(request: IncomingMessage, response: ServerResponse): void {
    const pipeline = pipelineOf(request.socket)
    const { socket, started, waiting } = pipeline
    dropOver(started)
    // On a connection that is closing, the handler discards what comes in.
    if ((started.length === 0 && waiting.length === 0) || socket.writableEnded) {
      started.push(response)
      pipeline.unwatched = response
      return handle?.call(server, request, response as never)
    }
    waiting.push({ request, response })
    watch(pipeline)
    if (waiting.length > MAX_WAITING) pauseReading(pipeline)
    schedule(pipeline)
  }

  function pipelineOf(socket: Socket): Pipeline {
    const known = pipelines.get(socket)
    if (known !== undefined) return known
    const made = { socket, started: [], waiting: [], unwatched: null, paused: null }
    pipelines.set(socket, made)
    return made
  }

  function watch(pipeline: Pipeline): void {
    pipeline.unwatched?.once('close', () => schedule(pipeline))
    pipeline.unwatched = null
  }

  function schedule(pipeline: Pipeline): void {
    if (!mayStart(pipeline)) return
    ready.add(pipeline)
    if (!turning) setImmediate(turn)
    turning = true
  }

  function turn(): void {
    let starts = 0
    for (const pipeline of ready) {
      if (starts === MAX_STARTS_PER_TURN) break
      // One that is added again comes last.
      ready.delete(pipeline)
      if (!mayStart(pipeline)) continue
      starts += 1
      startNext(pipeline)
      if (mayStart(pipeline)) ready.add(pipeline)
    }
    turning = ready.size > 0
    if (turning) setImmediate(turn)
  }

  function startNext(pipeline: Pipeline): void {
    const next = pipeline.waiting.shift()
    if (next === undefined) return
    const { request, response } = next
    pipeline.started.push(response)
    response.once('close', () => schedule(pipeline))
    if (pipeline.paused === true && pipeline.waiting.length <= MAX_WAITING / 2) {
      pipeline.paused = false
      pausedSockets.delete(pipeline.socket)
      pipeline.socket.resume()
    }
    handle?.call(server, request, response as never)
  }

  server.off('request', handle)
  server.prependListener('request', receive)
}

/** The first may always start: it waits for nothing that another one could end. */
function mayStart({ socket, started, waiting }: Pipeline): boolean {
  if (waiting.length === 0 || socket.destroyed) return false
  dropOver(started)
  if (started.length === 0) return true
  return started.length < MAX_IN_PROGRESS && !socket.writableNeedDrain
}

function dropOver(started: ServerResponse[]): void {
  while (started[0] !== undefined && (started[0].writableFinished || started[0].destroyed))
    started.shift()
}

const pausedSockets = new WeakSet<Socket>()

/** Whether this node has stopped reading the connection, so its client cannot finish a request. */
export const isConnectionReadingPaused = (socket: Socket): boolean => pausedSockets.has(socket)

/** Node resumes a connection after each request that it has read, so the pause is repeated. */
function pauseReading(pipeline: Pipeline): void {
  const { socket, paused } = pipeline
  if (paused === true) return
  pipeline.paused = true
  pausedSockets.add(socket)
  socket.pause()
  if (paused !== null) return
  socket.on('resume', () => {
    if (pipeline.paused === true && !socket.writableEnded) socket.pause()
  })
}

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { ServiceError } from '../../core/errors.ts'
import { toProblemDocument } from '../../core/problem-document.ts'
import { LIMITS, TOKEN_BUCKET_RATES } from '../../core/limits.ts'
import type { ApiKeyRecord } from '../../persistence/agents/api-key-store.ts'
import { hasKeyScope } from '../auth/api-key-permissions.ts'
import { toHttpServiceError } from '../plugins/error-handler.ts'
import { createWsFrameHandlers, type WsCallerContext } from './websocket-frame-handlers.ts'
import { createWsFrameQueue } from './websocket-incoming-frame-queue.ts'
import {
  WS_CLOSE_CODES,
  assertValidWsClientFrame,
  WS_SUBPROTOCOL,
  type WsCloseCode,
  type WsClientFrame,
  type UnvalidatedWsClientFrame,
} from './websocket-frames-from-clients.ts'
import { startWebSocketHeartbeat } from './websocket-heartbeat.ts'
import { createWsFrameWriter } from './websocket-frame-writer.ts'
import { acquireApiKeyStreamSlot, type ApiKeyStreamSlot } from './websocket-stream-slot.ts'
import { createWebSocketSubscriptions } from './websocket-subscriptions.ts'

/** A WebSocket session: hello, resume, frames and events. */

/** Limits sent to the client in `hello`. */
const CLIENT_LIMITS = {
  channels: LIMITS.streamChannels,
  frames_per_s: LIMITS.framesPerSecond,
  publish_per_s: TOKEN_BUCKET_RATES.write.perSecond,
  max_bytes: LIMITS.frameBytes,
}
/** Concurrent tool calls per socket. */
const MAX_RUNNING_CALLS = 16
/**
 * A client that sends its key with the upgrade may still resume with its first frame. The session waits this
 * long for it, so that resumed events arrive once and in order.
 */
const FIRST_FRAME_MS = 1_000

type ResumeFields = NonNullable<WsClientFrame<'hello'>['resume']>
type SessionContext = WsCallerContext & { readonly release: () => void }

/** Runs a socket from its first frame to its last: `hello`, then frames in order. */
export function openWebSocketSession(
  app: FastifyInstance,
  socket: WebSocket,
  request: FastifyRequest,
  opened: ApiKeyStreamSlot | null,
): void {
  const { config, clock, explained, realtime, keys } = app.services
  const acts = createWsFrameHandlers(app)
  const out = createWsFrameWriter(socket, request.raw.socket)
  const gone = new AbortController()
  let running = 0
  let greeted = false
  let actor: SessionContext | null = null
  let helloDue: NodeJS.Timeout | undefined
  let listen: (() => Promise<void>) | null = null

  const { enqueue } = createWsFrameQueue(socket, { clock, out, handle, fail })
  socket.once('close', () => {
    clearTimeout(helloDue)
    gone.abort(new ServiceError('cancelled'))
    leave()
  })
  if (socket.protocol !== WS_SUBPROTOCOL) {
    out.close(WS_CLOSE_CODES.noSubprotocol, `the subprotocol is ${WS_SUBPROTOCOL}`)
    return
  }
  startWebSocketHeartbeat(socket, LIMITS.heartbeatMs)
  if (opened === null) {
    helloDue = setTimeout(() => refuse('no hello in time'), LIMITS.helloMs)
  } else {
    opened.bind(out)
    enqueue(null, () => begin(opened.key, null, true))
    helloDue = setTimeout(() => enqueue(null, startListening), FIRST_FRAME_MS)
  }

  async function handle(raw: UnvalidatedWsClientFrame): Promise<void> {
    if (raw.type === 'hello') {
      if (greeted) return out.close(WS_CLOSE_CODES.badFrame, 'hello is the first frame')
      greeted = true
      return hello(assertValidWsClientFrame(raw) as WsClientFrame<'hello'>)
    }
    greeted = true
    if (actor === null) return refuse('the first frame is hello')
    await startListening()
    const frame = assertValidWsClientFrame(raw) as Exclude<WsClientFrame, WsClientFrame<'hello'>>
    if (frame.type === 'refuel') startRefuel(frame, actor)
    else await acts[frame.type](frame as never, actor)
  }

  /** Tool calls may take long, so the frames behind them do not wait. */
  function startRefuel(frame: WsClientFrame<'refuel'>, by: SessionContext): void {
    if (running >= MAX_RUNNING_CALLS)
      throw new ServiceError('rate_limited', {
        detail: `At most ${MAX_RUNNING_CALLS} tools may run at once on a socket: wait for one to end.`,
        limit_source: 'socket.tools',
        limit: MAX_RUNNING_CALLS,
        retry_after: 1,
      })
    running += 1
    acts
      .refuel(frame, by)
      .catch((error: unknown) => fail(frame.ref, error))
      .finally(() => {
        running -= 1
      })
  }

  async function hello({ api_key: secret, ...wanted }: WsClientFrame<'hello'>): Promise<void> {
    clearTimeout(helloDue)
    const resume = wanted.resume ?? null
    // Without a resume, events since the upgrade are delivered before the session starts anew.
    if (resume === null) await startListening()
    if (secret === undefined)
      return actor === null ? refuse('hello carries the key') : begin(actor.key, resume)
    const key = await app.keyRing.verify(secret)
    if (gone.signal.aborted) return
    if (key === null || (actor !== null && actor.key.id !== key.id))
      return refuse('the key does not work here')
    if (actor === null) {
      if (!hasKeyScope(key, 'read'))
        return out.close(WS_CLOSE_CODES.forbidden, 'the key may not read')
      acquireApiKeyStreamSlot({ realtime, keys }, request.raw.socket, key, secret).bind(out)
    }
    return begin(key, resume)
  }

  /** Also runs for a socket that was opened with its key and resumes with its first frame. */
  async function begin(
    key: ApiKeyRecord,
    resume: ResumeFields | null,
    later = false,
  ): Promise<void> {
    const { agentId } = key
    const replaced = () => out.close(WS_CLOSE_CODES.replaced, 'the session goes on elsewhere')
    leave()
    const { session, release } =
      resume === null
        ? realtime.sessions.begin(agentId, replaced)
        : realtime.sessions.resume(resume.session, agentId, replaced)
    const listening = createWebSocketSubscriptions(realtime, out, key)
    const { id: requestId, caller } = request
    const { visitorId, siteId } = caller
    actor = {
      ...{ key, session, release, requestId, visitorId, siteId },
      subscriptions: listening,
      closeSignal: gone.signal,
      send: out.send,
    }
    await orSentAway(listening.hear())
    if (!later) await orSentAway(listening.subscribeOwnChannel(resume?.cursor ?? null))
    const now = listening.cursors()
    // Other channels are not resubscribed here; the client continues them from its signal cursor.
    const cursor = resume === null ? now : { ...now, signals: resume.cursor.signals }
    listen = later ? () => listening.subscribeOwnChannel(cursor) : null
    out.send({
      type: 'ready',
      session,
      agent_id: agentId,
      cursor,
      heartbeat_ms: LIMITS.heartbeatMs,
      limits: CLIENT_LIMITS,
    })
  }

  async function startListening(): Promise<void> {
    const start = listen
    listen = null
    if (start !== null) await orSentAway(start())
  }

  /**
   * Closes the socket when the start fails: it would stay silent, and a client that reconnects with its
   * cursor misses nothing.
   */
  async function orSentAway(beginning: Promise<void>): Promise<void> {
    try {
      await beginning
    } catch (error) {
      out.close(WS_CLOSE_CODES.internal, 'what is addressed to you cannot be read now')
      throw error
    }
  }

  function leave(): void {
    listen = null
    actor?.subscriptions.end()
    actor?.release()
    actor = null
  }

  function fail(ref: string | null, error: unknown): void {
    const known = toHttpServiceError(error as never)
    if (known === null) request.log.error({ reqId: request.id, err: error }, 'a frame failed')
    const sentError = known ?? new ServiceError('internal')
    if (actor !== null) {
      const { agentId, id: keyId } = actor.key
      explained.note(known, { agentId, keyId, requestId: request.id })
    }
    if (sentError.code === 'payment_required' && actor !== null) {
      const { agentId } = actor.key
      sentError.details['agent_id'] = agentId
      sentError.details['fund_url'] = `${config.publicUrl}/fund/${agentId}`
    }
    const document = toProblemDocument(sentError, config, `urn:request:${request.id}`)
    out.send({ type: 'error', ...(ref === null ? {} : { ref }), problem: document })
    if (known === null) out.close(WS_CLOSE_CODES.internal, 'internal error')
    else if (actor === null) out.close(toCloseCode(known), known.code)
  }

  const refuse = (why: string) => out.close(WS_CLOSE_CODES.unauthenticated, why)
}

/** A socket that has not started has nothing to resume. */
function toCloseCode({ code }: ServiceError): WsCloseCode {
  if (code === 'rate_limited') return WS_CLOSE_CODES.tooMany
  return code === 'invalid_input' ? WS_CLOSE_CODES.badFrame : WS_CLOSE_CODES.internal
}

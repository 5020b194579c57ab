import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { problem, ServiceError } from '../../core/errors.ts'
import { LIMITS, RATES } from '../../core/limits.ts'
import type { KeyRecord } from '../../persistence/keys.ts'
import { allows } from '../key-powers.ts'
import { expected } from '../plugins/problems.ts'
import { actsOf, type Acting } from './acts.ts'
import { frameQueue } from './frame-queue.ts'
import {
  CLOSE,
  demandFields,
  SUBPROTOCOL,
  type CloseCode,
  type Frame,
  type RawFrame,
} from './frames.ts'
import { keepAlive } from './heartbeat.ts'
import { outlet } from './outlet.ts'
import { takeSeat, type Seat } from './seat.ts'
import { subscriptions } from './subscriptions.ts'

/** What a client is told when it may begin. */
const TOLD_LIMITS = {
  channels: LIMITS.streamChannels,
  frames_per_s: LIMITS.framesPerSecond,
  publish_per_s: RATES.write.perSecond,
  max_bytes: LIMITS.frameBytes,
}
/** Tools of one socket that run side by side. */
const MOST_RUNNING = 16
/**
 * Who brings the key in the upgrade may still say with the first frame from where on it wants to hear:
 * what it was told before that would come again, in another order. Nothing is lost by the wait.
 */
const FIRST_FRAME_MS = 1_000

type Resume = NonNullable<Frame<'hello'>['resume']>
type Actor = Acting & { readonly release: () => void }

/** One socket from its first frame to its last: `hello`, then frames one after the other. */
export function openSession(
  app: FastifyInstance,
  socket: WebSocket,
  request: FastifyRequest,
  opened: Seat | null,
): void {
  const { config, clock, realtime, keys } = app.services
  const acts = actsOf(app)
  const out = outlet(socket, request.raw.socket)
  const gone = new AbortController()
  let running = 0
  let greeted = false
  let actor: Actor | null = null
  let helloDue: NodeJS.Timeout | undefined
  let listen: (() => Promise<void>) | null = null

  const { enqueue } = frameQueue(socket, { clock, out, handle, fail })
  socket.once('close', () => {
    clearTimeout(helloDue)
    gone.abort(new ServiceError('cancelled'))
    leave()
  })
  if (socket.protocol !== SUBPROTOCOL) {
    out.close(CLOSE.noSubprotocol, `the subprotocol is ${SUBPROTOCOL}`)
    return
  }
  keepAlive(socket, LIMITS.heartbeatMs)
  if (opened === null) {
    helloDue = setTimeout(() => refuse('no hello in time'), LIMITS.helloMs)
  } else {
    opened.bind(out)
    enqueue(null, () => begin(opened.key, null, true))
    helloDue = setTimeout(() => enqueue(null, startListening), FIRST_FRAME_MS)
  }

  async function handle(raw: RawFrame): Promise<void> {
    if (raw.type === 'hello') {
      if (greeted) return out.close(CLOSE.badFrame, 'hello is the first frame')
      greeted = true
      return hello(demandFields(raw) as Frame<'hello'>)
    }
    greeted = true
    if (actor === null) return refuse('the first frame is hello')
    await startListening()
    const frame = demandFields(raw) as Exclude<Frame, Frame<'hello'>>
    if (frame.type === 'refuel') startRefuel(frame, actor)
    else await acts[frame.type](frame as never, actor)
  }

  /** A tool may take long: the frames behind it do not wait. */
  function startRefuel(frame: Frame<'refuel'>, by: Actor): void {
    if (running >= MOST_RUNNING)
      throw new ServiceError('rate_limited', {
        detail: `Only ${MOST_RUNNING} tools of a socket may run at once: wait for one to end.`,
        limit_source: 'socket.tools',
        limit: MOST_RUNNING,
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

  async function hello({ api_key: secret, ...wanted }: Frame<'hello'>): Promise<void> {
    clearTimeout(helloDue)
    const resume = wanted.resume ?? null
    // What it was told to begin with holds: what has come since is told before it begins anew.
    if (resume === null) await startListening()
    if (secret === undefined)
      return actor === null ? refuse('hello carries the key') : begin(actor.key, resume)
    const key = await app.keyRing.verify(secret)
    if (gone.signal.aborted) return
    if (key === null || (actor !== null && actor.key.id !== key.id))
      return refuse('the key does not work here')
    if (actor === null) {
      if (!allows(key, 'read')) return out.close(CLOSE.forbidden, 'the key may not read')
      takeSeat({ realtime, keys }, request.raw.socket, key, secret).bind(out)
    }
    return begin(key, resume)
  }

  /** Also for a socket that was opened with its key, and resumes with its first frame. */
  async function begin(key: KeyRecord, resume: Resume | null, later = false): Promise<void> {
    const { agentId } = key
    const replaced = () => out.close(CLOSE.replaced, 'the session goes on elsewhere')
    leave()
    const { session, release } =
      resume === null
        ? realtime.sessions.begin(agentId, replaced)
        : realtime.sessions.resume(resume.session, agentId, replaced)
    const listening = subscriptions(realtime, out, key)
    const { id: requestId, caller } = request
    const { visitorId, siteId } = caller
    actor = {
      ...{ key, session, release, requestId, visitorId, siteId },
      subscriptions: listening,
      gone: gone.signal,
      send: out.send,
    }
    if (!later) await orSentAway(listening.own(resume?.cursor ?? null))
    const now = listening.cursors()
    // Channels beside its own are not restored: they go on from where the client was.
    const cursor = resume === null ? now : { ...now, signals: resume.cursor.signals }
    listen = later ? () => listening.own(cursor) : null
    out.send({
      type: 'ready',
      session,
      agent_id: agentId,
      cursor,
      heartbeat_ms: LIMITS.heartbeatMs,
      limits: TOLD_LIMITS,
    })
  }

  async function startListening(): Promise<void> {
    const start = listen
    listen = null
    if (start !== null) await orSentAway(start())
  }

  /** It would stay silent: whoever comes back with its cursor misses nothing. */
  async function orSentAway(beginning: Promise<void>): Promise<void> {
    try {
      await beginning
    } catch (error) {
      out.close(CLOSE.internal, 'what is addressed to you cannot be read now')
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
    const known = expected(error as never)
    if (known === null) request.log.error({ err: error }, 'a frame failed')
    const told = known ?? new ServiceError('internal')
    if (told.code === 'payment_required' && actor !== null) {
      const { agentId } = actor.key
      told.details['agent_id'] = agentId
      told.details['fund_url'] = `${config.publicUrl}/fund/${agentId}`
    }
    const document = problem(told, config, `urn:request:${request.id}`)
    out.send({ type: 'error', ...(ref === null ? {} : { ref }), problem: document })
    if (known === null) out.close(CLOSE.internal, 'internal error')
    else if (actor === null) out.close(closeFor(known), known.code)
  }

  const refuse = (why: string) => out.close(CLOSE.unauthenticated, why)
}

/** Whoever has not begun yet has nothing to go on with. */
function closeFor({ code }: ServiceError): CloseCode {
  if (code === 'rate_limited') return CLOSE.tooMany
  return code === 'invalid_input' ? CLOSE.badFrame : CLOSE.internal
}

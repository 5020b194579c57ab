import type { FastifyInstance } from 'fastify'
import { assertAgentNotFrozen } from '../../actors/commands/agent-freeze-commands.ts'
import { toCallerConnectionFromSignal } from '../../calls/call-request-and-reply-types.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS, type TokenBucketClass } from '../../core/limits.ts'
import {
  toApiKeySpendingLimits,
  type ApiKeyRecord,
} from '../../persistence/agents/api-key-store.ts'
import type { IdempotentRequest } from '../../persistence/idempotency/idempotent-writes.ts'
import { createCrewRateLimit } from '../http-tool-call-request.ts'
import {
  assertBackpackActive,
  requireBackpackWithinKeyBinding,
} from '../auth/request-backpack-and-key-binding-check.ts'
import { callFingerprintKeyOf, hmacFingerprint } from '../http-idempotency-keys.ts'
import { hasKeyScope } from '../auth/api-key-permissions.ts'
import type { WsClientFrame, WsClientFrameType } from './websocket-frames-from-clients.ts'
import type { WebSocketSubscriptions } from './websocket-subscriptions.ts'

/** The caller behind a socket, and how to respond to it. */
export interface WsCallerContext {
  readonly key: ApiKeyRecord
  readonly session: string
  readonly requestId: string
  readonly visitorId: string
  readonly siteId: string | null
  readonly subscriptions: WebSocketSubscriptions
  /** Aborted when the socket closes. */
  readonly closeSignal: AbortSignal
  send(frame: object): void
}

type FrameHandlers = {
  readonly [T in Exclude<WsClientFrameType, 'hello'>]: (
    frame: WsClientFrame<T>,
    who: WsCallerContext,
  ) => Promise<void>
}

/** Returns the handler of each client frame. A thrown error is sent as the error of its `ref`. */
export function createWsFrameHandlers({ services, limits }: FastifyInstance): FrameHandlers {
  const { actors, calls, catalogue, config, keptBytes, publish, pulse, send } = services

  /** Writes draw on the agent's rate limit and need the scope `tools`. */
  async function permit({ key }: WsCallerContext, rate: TokenBucketClass): Promise<void> {
    if (!hasKeyScope(key, 'tools'))
      throw new ServiceError('insufficient_scope', { scope: 'tools', scopes: key.scopes })
    await limits.consumeForAgent(key.agentId, rate)
    if (key.backpackId !== null && rate === 'write')
      await assertBackpackActive(actors, key.agentId, key.backpackId)
  }

  /**
   * The same `ref` in the same session is the same request. The session is part of the key, because clients
   * that count refs from 1 would get the responses of an earlier session.
   */
  const keyOf = ({ session }: WsCallerContext, ref: string) => `ws:${session}:${ref}`
  /** Another key may resume a session: responses are replayed within one binding only. */
  const hashOf = ({ key }: WsCallerContext, frame: WsClientFrame) =>
    hmacFingerprint(
      key.backpackId === null ? frame : [frame, key.backpackId],
      callFingerprintKeyOf(config.fingerprintKey, key.agentId),
    )
  const askedBy = (
    who: WsCallerContext,
    frame: WsClientFrame & { ref: string },
    operation: string,
  ): IdempotentRequest => ({
    owner: who.key.agentId,
    agentId: who.key.agentId,
    keyId: who.key.id,
    key: keyOf(who, frame.ref),
    hash: hashOf(who, frame),
    operation,
  })
  const callerOf = ({ key, visitorId, siteId }: WsCallerContext) => ({
    agentId: key.agentId,
    key: toApiKeySpendingLimits(key),
    keyStatus: 'valid' as const,
    visitorId,
    siteId,
  })
  const publisherOf = ({ key }: WsCallerContext) => ({
    agentId: key.agentId,
    key: toApiKeySpendingLimits(key),
    backpackId: key.backpackId,
    taskId: null,
  })
  const ack = (who: WsCallerContext, ref: string, fields: object) =>
    who.send({ type: 'ack', ref, ok: true, ...fields })

  return {
    async ping({ ref }, who) {
      who.send({ type: 'pong', ...(ref === undefined ? {} : { ref }) })
    },

    async subscribe({ ref, channels, since = null }, who) {
      const subscribed = await who.subscriptions.subscribe(channels, since)
      ack(who, ref, { ...subscribed, cursor: who.subscriptions.cursors() })
    },

    async unsubscribe({ ref, channels }, who) {
      ack(who, ref, { channels: who.subscriptions.unsubscribe(channels) })
    },

    async publish(frame, who) {
      const { ref, channel, signal_type: type, payload, ttl_seconds: ttlSeconds } = frame
      await permit(who, 'write')
      const idempotentRequest = askedBy(who, frame, 'publishSignal')
      const wanted = { channel, type, payload, ttlSeconds }
      const { body } = await publish(idempotentRequest, publisherOf(who), wanted)
      const { id, cost_usdc, balance_usdc } = body as Record<string, unknown>
      ack(who, ref, { id, cost_usdc, balance_usdc })
    },

    async pulse(frame, who) {
      const { ref } = frame
      await permit(who, 'write')
      await assertAgentNotFrozen(actors, who.key.agentId)
      await keptBytes.take(who.key.agentId, LIMITS.keptBytesPerWrite)
      // A pulse replaces the one before, so it is not stored for replays.
      const idempotentRequest = { ...askedBy(who, frame, 'sendPulse'), key: null }
      await pulse(idempotentRequest, who.key.agentId, frame)
      ack(who, ref, {})
    },

    async message(frame, who) {
      const { ref, to, message, subject = null } = frame
      await permit(who, 'write')
      await assertAgentNotFrozen(actors, who.key.agentId)
      const bytes = LIMITS.keptBytesPerWrite + LIMITS.keptCopies * Buffer.byteLength(message)
      await keptBytes.take(who.key.agentId, bytes)
      const idempotentRequest = askedBy(who, frame, 'sendMessage')
      const { body } = await send(idempotentRequest, who.key.agentId, { to, message, subject })
      ack(who, ref, { message_id: (body as { message_id: string }).message_id })
    },

    async refuel(frame, who) {
      const { type: _type, ref, task_id: taskId = null, backpack_id: named, ...body } = frame
      const bound = who.key.backpackId
      const backpackId = named === undefined ? bound : requireBackpackWithinKeyBinding(bound, named)
      await permit(who, 'refuel')
      const tool = catalogue.find(body.tool)?.slug ?? body.tool
      const reply = await calls.refuel({
        tool,
        body,
        caller: callerOf(who),
        taskId,
        backpackId,
        ghost: 'off',
        idempotency: { key: keyOf(who, ref), hash: hashOf(who, frame) },
        door: { path: '/api/refuel', body: Buffer.alloc(0), paymentHeader: null, fingerprint: '' },
        connection: toCallerConnectionFromSignal(who.closeSignal),
        requestId: who.requestId,
        takeRateToken: createCrewRateLimit(limits, who.key.agentId),
      })
      if (reply.status >= 400) who.send({ type: 'error', ref, problem: reply.body })
      else ack(who, ref, { result: reply.body })
    },
  }
}

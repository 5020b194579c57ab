import type { Clock } from '../../../core/clock.ts'
import type {
  EncryptionKeys,
  EncryptionPurpose,
} from '../../../core/key-derivation-and-encryption.ts'
import { COMMUNITY_TOOLS_TOPIC } from '../../../domain/community-tool-record.ts'
import type { MessageBus } from '../../../persistence/message-bus.ts'
import type { StationKeys } from '../../../persistence/encrypted-station-key-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import {
  createCommunityToolCallStore,
  toCommunityToolCallRow,
} from '../../../persistence/tools/community-tool-call-store.ts'
import { createImportedServiceCredentialStore } from '../../../persistence/tools/tool-credential-store.ts'
import { createCommunityToolStore } from '../../../persistence/tools/community-tool-store.ts'
import { withDatabaseAnswerTimeout } from '../../../persistence/query-timeout.ts'
import type { DnsAddressResolver } from '../../../providers/egress/dns-resolver.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { createToolBuilderCircuitBreaker } from '../../../tools/community/tool-builder-circuit-breaker.ts'
import {
  createCallableCommunityTool,
  type ForwardedCommunityCall,
} from '../../../tools/community/callable-community-tool.ts'
import { createCommunityToolRegistry } from '../../../tools/community/community-tool-registry.ts'
import { createCommunityCallForwarder } from '../../../tools/community/forward-community-tool-call.ts'
import { createUntrustedWork } from '../../../tools/community/untrusted-work-pool.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { Config } from '../../config.ts'

/** Composes the tools that agents sell: their registry on this node, and the calls of their builders. */

export interface ComposeCommunityToolsDeps {
  readonly config: Pick<Config, 'ssrfAllow' | 'promoTransferable'>
  readonly clock: Clock
  readonly sql: Sql
  readonly userAgent: string
  readonly own: Pick<StationKeys, 'builders'>
  readonly sealingFor: (purpose: EncryptionPurpose) => EncryptionKeys
  readonly plane: { readonly bus: Pick<MessageBus, 'subscribe' | 'publish'> }
  /** DNS resolution of builders' hosts, for tests. */
  readonly resolve?: DnsAddressResolver | undefined
  /** The time of a whole call, for tests. */
  readonly callMs?: number | undefined
  readonly log: (message: string, error: unknown) => void
}

export function composeCommunityTools(parts: ComposeCommunityToolsDeps) {
  const { config, clock, sql, userAgent, own, plane, resolve, log } = parts
  const { callMs = LIMITS.communityCallMs } = parts
  // Their own connections: builders that hang hold up no other request.
  const egress = createEgressClient({
    allow: parseIpAddressAllowlist(config.ssrfAllow),
    userAgent,
    timeouts: { headersMs: LIMITS.communityCallMs, bodyMs: LIMITS.communityCallMs },
    // No call that is sent waits for another one of its builder.
    connections: LIMITS.communityCallsInFlight,
    ...(resolve === undefined ? {} : { resolve }),
  })
  const store = createCommunityToolStore(sql)
  const callStore = createCommunityToolCallStore(sql)
  const credentials = createImportedServiceCredentialStore(sql, parts.sealingFor('keyring'))
  const work = createUntrustedWork()
  const send = createCommunityCallForwarder({
    egress,
    work,
    key: own.builders,
    now: clock.now,
    callMs,
    credentials,
  })
  const health = createToolBuilderCircuitBreaker({ clock, send, callMs })
  const registry = createCommunityToolRegistry({
    clock,
    store: {
      active: store.active,
      find: (slug) => withDatabaseAnswerTimeout(store.find(slug)),
    },
    makeTool: (record) =>
      createCallableCommunityTool(record, {
        now: clock.now,
        mono: clock.mono,
        callMs,
        promoTransferable: config.promoTransferable,
        health,
        work,
        toRow: (call) => toCommunityToolCallRow(toRecord(call)),
        recordRefund: (call) =>
          callStore
            .addRefund(toRecord(call))
            .catch((error: unknown) => log('a refund of a builder was not recorded', error)),
      }),
    log,
  })
  const reload = () =>
    void registry.reload().catch((error: unknown) => log('tools were not read', error))
  const unsubscribe = plane.bus.subscribe(
    COMMUNITY_TOOLS_TOPIC,
    (slug) =>
      void registry.refresh(slug).catch((error: unknown) => log('a tool was not read', error)),
    reload,
  )
  return {
    registry,
    store,
    callStore,
    credentials,
    egress,
    work,
    /** Reads all tools; the station answers no call before. */
    start: () => registry.reload(),
    /** Tells every node, and waits until this one knows. */
    announce: async (slug: string): Promise<void> => {
      await registry.refresh(slug)
      await plane.bus.publish(COMMUNITY_TOOLS_TOPIC, slug)
    },
    async close(): Promise<void> {
      unsubscribe()
      await Promise.all([egress.close(), work.close()])
    },
  }
}

const toRecord = ({ tool, ...call }: ForwardedCommunityCall) => ({
  ...call,
  slug: tool.slug,
  builderId: tool.builderId,
})

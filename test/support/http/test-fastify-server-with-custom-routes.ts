import { createExplainedRefusalRecorder } from '../../../calls/explained-refusal-recorder.ts'
import { composeWebhooks } from '../../../app/compose/compose-webhooks.ts'
import { loadConfig } from '../../../app/config.ts'
import { createDatabaseAdjustedClock, type Clock } from '../../../core/clock.ts'
import {
  parseMasterKey,
  deriveEncryptionKeys,
  deriveSubkey,
} from '../../../core/key-derivation-and-encryption.ts'
import { newApiKey, newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../../../domain/api-key-spending-limits.ts'
import { fromUsdc, ZERO_MICROS } from '../../../core/money.ts'
import { createServerWithoutRoutes } from '../../../http/http-server.ts'
import type { HttpConfig, HttpServices } from '../../../http/http-config-and-service-types.ts'
import { DEPOSITS_DISABLED_HEALTH } from '../../../jobs/deposit-scan-job.ts'
import { createDeadLetterStore } from '../../../persistence/dead-letter-store.ts'
import { createApiKeyStore, type NewApiKey } from '../../../persistence/agents/api-key-store.ts'
import { createIdempotentWrites } from '../../../persistence/idempotency/idempotent-writes.ts'
import { createOutboxStore } from '../../../persistence/outbox-store.ts'
import { startPostgresAndRedis } from '../../../persistence/start-postgres-and-redis.ts'
import { createAgentGoalPulseStore } from '../../../persistence/realtime/agent-goal-pulse-store.ts'
import { createSettlementQueries } from '../../../persistence/payments/settlement-queries.ts'
import { enterCursorEpochs } from '../../../persistence/realtime/cursor-epochs.ts'
import { createSignalStore } from '../../../persistence/realtime/channel-signal-store.ts'
import { startRealtimeService } from '../../../realtime/realtime-service.ts'
import { createPaymentChains } from '../../../payments/payment-chains.ts'
import { createTestDatabase } from '../postgres/test-database.ts'
import { createStationDataDir } from '../station/temporary-station-data-directory.ts'

/** An HTTP server over a test database for routes that a test adds itself. */

interface Test {
  teardown(work: () => unknown): unknown
}

export const TEST_MASTER_KEY = parseMasterKey(Buffer.alloc(32, 1).toString('base64'))
const pepper = deriveSubkey(TEST_MASTER_KEY, 'pepper')

export const TEST_HTTP_CONFIG: HttpConfig = {
  production: false,
  publicUrl: 'http://gas.test',
  deposits: false,
  version: '0.0.0',
  trustProxy: false,
  operatorToken: null,
  operatorContact: null,
  rateLimits: false,
  onboardPerHourPerIp: 10,
  bulkOnboardMax: 20,
  exposure: ZERO_MICROS,
  starterCredits: fromUsdc(0.5),
  promoTransferable: true,
  logLevel: 'silent',
  visitorKey: deriveSubkey(TEST_MASTER_KEY, 'visitor'),
  fingerprintKey: deriveSubkey(TEST_MASTER_KEY, 'fingerprints'),
}

const NO_CHAINS = {
  base: null,
  bsc: null,
  tempo: null,
  solana: null,
  treasury: null,
  settler: null,
  realm: 'gas.test',
  log: () => {},
}

/** Starts the server with its hooks and error handlers over a real database. */
export async function createTestServer(
  t: Test,
  overrides: Partial<HttpConfig> = {},
  clock: Clock = createDatabaseAdjustedClock(),
) {
  const { settings } = await createTestDatabase(t)
  const plane = await startPostgresAndRedis({
    ...settings,
    redisUrl: null,
    dataDir: createStationDataDir(t),
    redis: 'none',
    log: () => {},
  })
  const keys = createApiKeyStore(plane.sql, pepper)
  const once = createIdempotentWrites(
    plane.sql,
    clock,
    deriveEncryptionKeys([TEST_MASTER_KEY], 'answers'),
  )
  const live = await startRealtimeService({
    clock,
    bus: plane.bus,
    keys,
    signals: createSignalStore(plane.sql),
    outbox: createOutboxStore(plane.sql),
    pulses: createAgentGoalPulseStore(plane.sql),
    epochs: await enterCursorEpochs(plane.sql),
    log: () => {},
  })
  const hooks = composeWebhooks({
    config: loadConfig({}),
    publicUrl: TEST_HTTP_CONFIG.publicUrl,
    userAgent: 'gas-station/test',
    plane,
    sql: plane.sql,
    clock,
    sealing: deriveEncryptionKeys([TEST_MASTER_KEY], 'webhook'),
    letters: createDeadLetterStore(plane.sql),
    log: () => {},
  })
  const explained = createExplainedRefusalRecorder({
    clock,
    key: TEST_HTTP_CONFIG.fingerprintKey,
    publicUrl: TEST_HTTP_CONFIG.publicUrl,
    write: async () => {},
    log: () => {},
  })
  // The only services that these hooks use.
  const services = {
    config: { ...TEST_HTTP_CONFIG, ...overrides },
    clock,
    keys,
    once,
    plane,
    realtime: live,
    ...hooks.served,
    depositHealth: () => DEPOSITS_DISABLED_HEALTH,
    explained,
    attestations: { tree: {} },
    inspection: null,
    sandboxHealth: () => ({ ok: true, kind: 'untried' }),
    rails: createPaymentChains(NO_CHAINS).status,
    settlements: createSettlementQueries(plane.sql),
  } as unknown as HttpServices
  const app = createServerWithoutRoutes(services)
  t.teardown(async () => {
    await app.close()
    await live.stop()
    await hooks.stop()
    await plane.stop()
  })
  /** Creates a key for the given agent, or for a new one. */
  async function key(wanted: Partial<NewApiKey> = {}): Promise<NewApiKey> {
    const now = clock.now()
    const made = {
      id: newUuidV7(now),
      agentId: newUuidV7(now),
      secret: newApiKey(),
      name: 'test',
      scopes: ['*'],
      ...UNLIMITED_API_KEY_SPENDING,
      expiresAt: null,
      createdAt: new Date(now),
      ...wanted,
    }
    await plane.sql.begin((tx) => keys.add(tx, made, 1_000))
    return made
  }
  return { app, keys, key, once, plane, services, sql: plane.sql }
}

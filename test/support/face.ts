import { composeWebhooks } from '../../app/compose-webhooks.ts'
import { loadConfig } from '../../app/config.ts'
import { systemClock, type Clock } from '../../core/clock.ts'
import { masterKey, sealingKeys, subkey } from '../../core/crypto.ts'
import { newApiKey, newId } from '../../core/ids.ts'
import { UNLIMITED_KEY } from '../../core/key-terms.ts'
import { fromUsdc, ZERO } from '../../core/money.ts'
import { createServer } from '../../http/server.ts'
import type { HttpConfig, Services } from '../../http/services.ts'
import { NO_DEPOSITS } from '../../jobs/deposit-scan.ts'
import { deadLetters } from '../../persistence/dead-letters.ts'
import { keyStore, type NewKey } from '../../persistence/keys.ts'
import { onceStore } from '../../persistence/once.ts'
import { outboxStore } from '../../persistence/outbox.ts'
import { startPlane } from '../../persistence/plane.ts'
import { pulseStore } from '../../persistence/pulses.ts'
import { settlementStore } from '../../persistence/settlements.ts'
import { signalStore } from '../../persistence/signals.ts'
import { realtime } from '../../realtime/realtime.ts'
import { chains } from '../../payments/chains.ts'
import { testDatabase } from './database.ts'

interface Test {
  teardown(work: () => unknown): unknown
  testdir(): string
}

export const master = masterKey(Buffer.alloc(32, 1).toString('base64'))
const pepper = subkey(master, 'pepper')

export const config: HttpConfig = {
  production: false,
  publicUrl: 'http://gas.test',
  deposits: false,
  version: '0.0.0',
  trustProxy: false,
  operatorToken: null,
  rateLimits: false,
  onboardPerHourPerIp: 10,
  bulkOnboardMax: 20,
  exposure: ZERO,
  starterCredits: fromUsdc(0.5),
  promoTransferable: true,
  logLevel: 'silent',
  visitorKey: subkey(master, 'visitor'),
  fingerprintKey: subkey(master, 'fingerprints'),
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

/** The rules of the house over a real database, for routes a test adds itself. */
export async function face(
  t: Test,
  overrides: Partial<HttpConfig> = {},
  clock: Clock = systemClock(),
) {
  const { settings } = await testDatabase(t)
  const plane = await startPlane({
    ...settings,
    redisUrl: null,
    dataDir: t.testdir(),
    redis: 'none',
    log: () => {},
  })
  const keys = keyStore(plane.sql, pepper)
  const once = onceStore(plane.sql, clock, sealingKeys([master], 'answers'))
  const live = await realtime({
    clock,
    bus: plane.bus,
    keys,
    signals: signalStore(plane.sql),
    outbox: outboxStore(plane.sql),
    pulses: pulseStore(plane.sql),
    log: () => {},
  })
  const hooks = composeWebhooks({
    config: loadConfig({}),
    publicUrl: config.publicUrl,
    userAgent: 'gas-station/test',
    sql: plane.sql,
    clock,
    sealing: sealingKeys([master], 'webhook'),
    letters: deadLetters(plane.sql),
    log: () => {},
  })
  // The rules need no more than these; what else a route reaches is not part of such a test.
  const services = {
    config: { ...config, ...overrides },
    clock,
    keys,
    once,
    plane,
    realtime: live,
    ...hooks.served,
    depositHealth: () => NO_DEPOSITS,
    sandboxHealth: () => ({ ok: true, kind: 'untried' }),
    rails: chains(NO_CHAINS).status,
    settlements: settlementStore(plane.sql),
  } as unknown as Services
  const app = createServer(services)
  t.teardown(async () => {
    await app.close()
    await live.stop()
    await hooks.stop()
    await plane.stop()
  })
  /** A key of a new agent, or of the one given. */
  async function key(wanted: Partial<NewKey> = {}): Promise<NewKey> {
    const now = clock.now()
    const made = {
      id: newId(now),
      agentId: newId(now),
      secret: newApiKey(),
      name: 'test',
      scopes: ['*'],
      ...UNLIMITED_KEY,
      expiresAt: null,
      createdAt: new Date(now),
      ...wanted,
    }
    await plane.sql.begin((tx) => keys.add(tx, made, 1_000))
    return made
  }
  return { app, keys, key, once, plane, services, sql: plane.sql }
}

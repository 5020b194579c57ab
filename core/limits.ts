const KIB = 1024

/** Every bound of the service in one place; rates are in `RATES`, money bounds in `prices.ts`. */
export const LIMITS = {
  bodyBytes: 256 * KIB,
  largeBodyBytes: 1024 * KIB,
  headerBytes: 32 * KIB,
  toolOutputBytes: 1024 * KIB,
  clipboardValueBytes: 32 * KIB,
  clipboardEntries: 1_000,
  keyringSecretBytes: 8 * KIB,
  keyringSecrets: 100,
  jsonDepth: 32,
  mailbox: 1_000,
  laneCommands: 512,
  laneSize: 1024 * KIB,
  residentAggregates: 100_000,
  activeTasks: 1_000,
  backpacks: 1_000,
  keys: 100,
  pipelineCalls: 10,
  pageDefault: 50,
  pageMax: 200,
  toolDeadlineMs: 90_000,
  holdGraceMs: 30_000,
  idempotencyHours: 24,
  /** A repeated key waits this long for the first request before it is told 409. */
  idempotencyWaitMs: 1_000,
  commitAnswerMs: 1_500,
  /** After this long a commit counts as interrupted, and is asked after. */
  commitLostMs: 5_000,
  timerSweepMs: 30_000,
  keyGraceSeconds: 86_400,
  backpackExpiryDays: 90,
  streamsPerKey: 5,
  /** A payment header before it is decoded. */
  paymentHeaderBytes: 8 * KIB,
  /** An authorization is good for so long, and may be for at most an hour. */
  paymentSeconds: 300,
  paymentMostSeconds: 3_600,
  /** Beyond the tool's deadline, what is left of an authorization to settle it with. */
  settleMarginSeconds: 45,
  /** A caller who pays first waits so long for the chain. */
  settleWaitMs: 20_000,
  depositConfirmations: 6,
  dropSlots: 10,
  dropHours: 2,
  walletExportsPerHour: 3,
  fleetMembers: 1_000,
} as const

/** Token buckets (decision 14): `perSecond` refills, `burst` is the size of the bucket. */
export const RATES = {
  refuel: { perSecond: 50, burst: 100 },
  write: { perSecond: 10, burst: 20 },
  read: { perSecond: 100, burst: 200 },
} as const
export type RateClass = keyof typeof RATES

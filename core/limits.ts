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
  /** Facts in the outbox; event streams say `gap` where older ones are asked for. */
  eventDays: 30,
  /** After its last free call; longer than its counters mean anything. */
  visitorDays: 7,
  /** A repeated key waits this long for the first request before it is told 409. */
  idempotencyWaitMs: 1_000,
  commitAnswerMs: 1_500,
  /** After this long a commit counts as interrupted, and is asked after. */
  commitLostMs: 5_000,
  timerSweepMs: 30_000,
  keyGraceSeconds: 86_400,
  backpackExpiryDays: 90,
  webhooks: 20,
  /** Beyond so many waiting deliveries a receiver is passed over. */
  webhookBacklog: 10_000,
  webhookAttemptMs: 4_000,
  webhookAnswerBytes: 16 * KIB,
  deliveryDays: 14,
  /** A threshold is told once in this time. */
  alertHours: 12,
  alertDays: 30,
  /** To one address or chat, whoever causes them. */
  ownerMessagesPerDay: 100,
  ownerPingsPerHour: 10,
  recommendationsPerHour: 30,
  streamsPerKey: 5,
  /** Channels of one stream, and what is replayed of each before it is a gap. */
  streamChannels: 100,
  replayedPerChannel: 1_000,
  signalPayloadBytes: 32 * KIB,
  signalTtlSeconds: 86_400,
  signalMostTtlSeconds: 7 * 86_400,
  signalLeastTtlSeconds: 60,
  pulseSeconds: 300,
  messageCharacters: 2_000,
  messageDays: 7,
  frameBytes: 64 * KIB,
  framesPerSecond: 20,
  heartbeatMs: 25_000,
  helloMs: 5_000,
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
  schedules: 20,
  scheduleParamsBytes: 8 * KIB,
  /** A longer result of a run is not kept; its call is. */
  scheduleResultBytes: 64 * KIB,
  scheduleResultDays: 30,
  /** A timer that fails so often, over so long a time, becomes a dead letter. */
  timerAttempts: 10,
  timerPatienceMs: 300_000,
  walletExportsPerHour: 3,
  fleetMembers: 1_000,
  bountyHours: 168,
  bountyMostHours: 720,
  bountyKeywords: 20,
  bountyContent: 20_000,
} as const

/** Token buckets (decision 14): `perSecond` refills, `burst` is the size of the bucket. */
export const RATES = {
  refuel: { perSecond: 50, burst: 100 },
  write: { perSecond: 10, burst: 20 },
  read: { perSecond: 100, burst: 200 },
} as const
export type RateClass = keyof typeof RATES

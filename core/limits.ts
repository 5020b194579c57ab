const KIB = 1024

/** Every bound of the service in one place; rates are in `TOKEN_BUCKET_RATES`, money bounds in `prices.ts`. */
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
  mailboxMaxCommands: 1_000,
  groupCommitMaxCommands: 512,
  groupCommitMaxChars: 1024 * KIB,
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
  /** A stranger's answer that holds a secret is repeated for so long, and its draft kept (decision 56). */
  anonymousReplaySeconds: 600,
  /** A longer answer of a free call is not kept for repetitions (decision 157). */
  storedResponseMaxBytes: 64 * KIB,
  /** A shorter one is no more than the row of its call, and is not counted. */
  uncountedResponseBytes: KIB,
  /** Answers that cost nothing, kept for an agent in a UTC day; as much of plain writes. */
  storedResponseBytesPerDay: 50 * 1024 * KIB,
  /** What an agent may store in its clipboards and keyrings in a UTC day. */
  storedBytesPerDay: 50 * 1024 * KIB,
  /** The latest refusals that a Backpack's spend log keeps, and for how long. */
  backpackRefusals: 1_000,
  refusalDays: 30,
  /** Facts in the outbox; event streams say `gap` where older ones are asked for. */
  eventDays: 30,
  /** After its last free call; longer than its counters mean anything. */
  visitorDays: 7,
  /** What a /48 of IPv6 may do, in shares of what one of its 65,536 /64s may (decision 155). */
  ipv6SiteFactor: 16,
  /** A node reads anew what it has not heard of for so long; far shorter than the days of visitors. */
  stateMaxAgeMs: 86_400_000,
  /** A repeated key waits this long for the first request before it is told 409. */
  idempotencyWaitMs: 1_000,
  /** Nobody waits longer for an aggregate of which the database has said nothing. */
  commitTimeoutMs: 1_500,
  /** Nor longer than this for one that other nodes are always faster with. */
  contendedTimeoutMs: 10_000,
  /** After this long a commit counts as interrupted, and is asked after. */
  commitAbandonMs: 5_000,
  timerSweepMs: 30_000,
  keyGraceSeconds: 86_400,
  backpackExpiryDays: 90,
  webhooks: 20,
  /** Beyond so many waiting deliveries a receiver is passed over. */
  webhookBacklog: 10_000,
  webhookAttemptMs: 4_000,
  webhookAnswerBytes: 16 * KIB,
  /** Requests of an agent to send test events. */
  webhookTestsPerHour: 30,
  deliveryDays: 14,
  /** Dead letters after they were replayed. */
  deadLetterDays: 30,
  /** A threshold is told once in this time. */
  alertHours: 12,
  alertDays: 30,
  /** To one address or chat, caused by one agent; further ones wait for their turn. */
  ownerMessagesPerDay: 100,
  /** The same of what must be heard at once, which is counted apart. */
  ownerCriticalPerDay: 20,
  /** To one address or chat, whoever causes them; what must be heard at once is not among them. */
  addressMessagesPerDay: 1_000,
  /** What would have to wait longer for its turn is not sent. */
  ownerWaitDays: 7,
  ownerPingsPerHour: 10,
  recommendationsPerHour: 30,
  streamsPerKey: 5,
  streamsPerAgent: 100,
  /** Channels of one stream, and what is replayed of each before it is a gap. */
  streamChannels: 100,
  replayedPerChannel: 1_000,
  signalPayloadBytes: 32 * KIB,
  signalTtlSeconds: 86_400,
  signalMaxTtlSeconds: 7 * 86_400,
  signalMinTtlSeconds: 60,
  pulseSeconds: 300,
  messageCharacters: 2_000,
  messageDays: 7,
  frameBytes: 64 * KIB,
  framesPerSecond: 20,
  /** So long a client may take nothing of an answer that lies before it. */
  responseIdleTimeoutMs: 60_000,
  /** So long what a client still sends after its last answer is read, so that it hears the answer. */
  lingeringCloseMs: 5_000,
  heartbeatMs: 25_000,
  helloMs: 5_000,
  /** A payment header before it is decoded. */
  paymentHeaderBytes: 8 * KIB,
  /** An authorization is good for so long, and may be for at most an hour. */
  paymentSeconds: 300,
  paymentMaxSeconds: 3_600,
  /** Beyond the tool's deadline, what is left of an authorization to settle it with. */
  settleMarginSeconds: 45,
  /** A caller who pays first waits so long for the chain. */
  settleWaitMs: 20_000,
  /** Blocks that have a payment of a finished call which fails in each: then it is lost. */
  settleAttempts: 5,
  /** A payment of which nobody can say for so long whether it arrived needs the operator. */
  settleStuckMs: 600_000,
  /** What our keys have signed, after all that it carried has ended. */
  settlerDays: 90,
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
  timerMinFailureMs: 300_000,
  walletExportsPerHour: 3,
  fleetMembers: 1_000,
  /** Calls of one tool and caller that fail at an address the caller named, in so many seconds. */
  failedCallsPerWindow: 30,
  failedCallsWindowSeconds: 300,
  /** Of one answer of a language model. */
  llmTokens: 4_000,
  /** Requests of one caller to language models, by all tools together. */
  llmPerMinute: 30,
  /** Entries that an agent with a key writes to the Hive in a UTC day. */
  hiveWritesPerDay: 500,
  /** Watches of the Hive at once. */
  hiveWatches: 10,
  /** What watches have found, and watches that have ended. */
  hiveMatchDays: 30,
  /** What was featured. */
  hiveFeatureDays: 90,
  /** Searches of the public Hive an hour and address. */
  hiveSearchesPerHour: 20,
  /** Writes to the vault that are free in an agent's life. */
  vaultFreeWrites: 500,
  vaultContent: 4_000,
  /** The newest memories of an agent that a query looks at. */
  vaultRecallCandidates: 2_000,
  /** The newest memories that a new one is held against. */
  vaultCompared: 500,
  vaultCompress: 50,
  vaultSummaries: 5,
  vaultDream: 80,
  /** Insights of earlier dreams that a dream does not write again. */
  vaultDreamt: 200,
  vaultExport: 5_000,
  /** What was asked of a vault, and what was found. */
  vaultQueryDays: 90,
  strategyParamsBytes: 8 * KIB,
  /** An address that a mail server did not know gets no letter for so long: it may be taken by then. */
  mailBounceDays: 30,
  bountyHours: 168,
  bountyMaxHours: 720,
  bountyKeywords: 20,
  bountyContent: 20_000,
} as const

/** Token buckets (decision 14): `perSecond` refills, `burst` is the size of the bucket. */
export const TOKEN_BUCKET_RATES = {
  refuel: { perSecond: 50, burst: 100 },
  write: { perSecond: 10, burst: 20 },
  read: { perSecond: 100, burst: 200 },
  /** Keys and Backpacks: apart, so that a busy agent cannot keep its owner from stopping it. */
  manage: { perSecond: 1, burst: 30 },
  /** Plans: ten an hour. */
  plan: { perSecond: 10 / 3_600, burst: 10 },
  /** Crews that an agent begins, also those that fail: six a minute. */
  crew: { perSecond: 6 / 60, burst: 6 },
} as const
export type TokenBucketClass = keyof typeof TOKEN_BUCKET_RATES

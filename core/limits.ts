/** Limits and rate limits of the service. Amounts of money are in `domain/pricing.ts`. */

const KIB = 1024

/** Limits of the service. The unit is in the name: Bytes, Chars, Ms, Seconds, Hours, Days. */
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
  /** Fields of a body: no operation knows nearly as many, and each is compared with those that it knows. */
  jsonFields: 1_000,
  /** Values in a JSON text: parsing costs by them. */
  jsonValues: 10_000,
  jsonValuesWithKey: 50_000,
  /** Values in the JSON of a stranger's answer, and different names of its fields. */
  resultValues: 100_000,
  resultNames: 10_000,
  /** Each started one of a body counts as a request. */
  countedBodyBytes: 16 * KIB,
  mailboxMaxCommands: 1_000,
  /** More commits share less of their cost; one lets a slow flush hold up every agent. */
  groupCommitsAtOnce: 2,
  groupCommitMaxCommands: 512,
  groupCommitMaxChars: 1024 * KIB,
  residentAggregates: 100_000,
  activeTasks: 1_000,
  openTaskPasses: 20,
  backpacks: 1_000,
  keys: 100,
  /** Links that an address gets by e-mail, to sign in to the owner's page or to be confirmed. */
  ownerLinksPerHour: 5,
  /** Of links that confirm an address, where each agent beyond the fifth link has one (decision 491). */
  confirmationLinksPerHour: 20,
  /** Links by which an agent has addresses confirmed: it may name the addresses of strangers. */
  confirmationLinksPerDay: 10,
  pipelineCalls: 10,
  pageDefault: 50,
  pageMax: 200,
  toolDeadlineMs: 90_000,
  holdGraceMs: 30_000,
  idempotencyHours: 24,
  /** How long anonymous answers with a secret, and their drafts, are kept (decision 56). */
  anonymousReplaySeconds: 600,
  /** Longer responses of free calls are not stored for repetitions (decision 157). */
  storedResponseMaxBytes: 64 * KIB,
  /** Shorter responses fit the row of their call and are not counted. */
  uncountedResponseBytes: KIB,
  /** Stored free responses of an agent per UTC day, and the same for plain writes. */
  storedResponseBytesPerDay: 50 * 1024 * KIB,
  /** What an agent stores per UTC day without paying for it, and the reserve for what manages the agent. */
  storedBytesPerDay: 100 * 1024 * KIB,
  storedBytesReserve: 10 * 1024 * KIB,
  /** A node reserves so much at a time. */
  storedBytesLease: 256 * KIB,
  /** The text of a write is stored at most so often: in its row, and in the event or the journal. */
  keptCopies: 2,
  /** What a write keeps beside these copies, and what a free call keeps. */
  keptBytesPerWrite: 4 * KIB,
  keptBytesPerFreeCall: KIB,
  /** Messages of one agent to another one per UTC day. */
  messagesToOnePerDay: 500,
  /** Newest rejections in a Backpack's spend log, and their lifetime. */
  backpackRefusals: 1_000,
  refusalDays: 30,
  /** Outbox events. Event streams report `gap` for older ones. */
  eventDays: 30,
  /** Visitors, after their last free call. Longer than any of their counters applies. */
  visitorDays: 7,
  /** Limits of an IPv6 /48, as a multiple of those of one /64 (decision 155). */
  ipv6SiteFactor: 16,
  /** Bodies that a node reads at a time, of callers without a key; as much again of agents. */
  bodyRoomBytes: 64 * 1024 * KIB,
  /** A node reloads idle states of this age. Must be far below `visitorDays`. */
  stateMaxAgeMs: 86_400_000,
  /** How long a repeated key waits for the first request before a 409. */
  idempotencyWaitMs: 1_000,
  /** Longest wait of a command while the database does not answer. */
  commitTimeoutMs: 4_000,
  /** Longest wait of a command that loses its aggregate to other nodes. */
  contendedTimeoutMs: 10_000,
  /** A commit of this age counts as interrupted; its outcome is looked up. */
  commitAbandonMs: 5_000,
  timerSweepMs: 30_000,
  keyGraceSeconds: 86_400,
  backpackExpiryDays: 90,
  webhooks: 20,
  /** Above this many waiting deliveries a receiver is skipped. */
  webhookBacklog: 10_000,
  webhookAttemptMs: 4_000,
  webhookAnswerBytes: 16 * KIB,
  /** Test events of an agent. */
  webhookTestsPerHour: 30,
  deliveryDays: 14,
  /** Replayed dead letters. */
  deadLetterDays: 30,
  /** Minimum time between two alerts of one threshold. */
  alertHours: 12,
  alertDays: 30,
  /** Messages to one address or chat caused by one agent. More of them wait. */
  ownerMessagesPerDay: 100,
  /** The same for critical messages, counted separately. */
  ownerCriticalPerDay: 20,
  /** Non-critical messages to one address or chat, from all agents. */
  addressMessagesPerDay: 1_000,
  /** Messages that would wait longer are dropped. */
  ownerWaitDays: 7,
  ownerPingsPerHour: 10,
  recommendationsPerHour: 30,
  streamsPerKey: 5,
  streamsPerAgent: 100,
  /** Channels per stream, and replayed events per channel before a gap. */
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
  /** How long a client may read nothing of a pending response. */
  responseIdleTimeoutMs: 60_000,
  /**
   * How long a closing connection reads further input, so that the client gets the last response.
   */
  lingeringCloseMs: 5_000,
  heartbeatMs: 25_000,
  helloMs: 5_000,
  /** Encoded payment header. */
  paymentHeaderBytes: 8 * KIB,
  /** Default and maximum lifetime of a payment authorization. */
  paymentSeconds: 300,
  paymentMaxSeconds: 3_600,
  /** Time for settlement that an authorization must have beyond the tool's deadline. */
  settleMarginSeconds: 45,
  /** How long a call waits for settlement when payment comes first. */
  settleWaitMs: 20_000,
  /** Failed transactions of a delivered call's payment before it counts as lost. */
  settleAttempts: 5,
  /** A payment with an unknown outcome for this long needs the operator. */
  settleStuckMs: 600_000,
  /** Transactions of our keys, after their payments have ended. */
  settlerDays: 90,
  depositConfirmations: 6,
  dropSlots: 10,
  dropHours: 2,
  schedules: 20,
  scheduleParamsBytes: 8 * KIB,
  /** Longer results of runs are not stored. */
  scheduleResultBytes: 64 * KIB,
  scheduleResultDays: 30,
  /** A timer with this many failures over this time becomes a dead letter. */
  timerAttempts: 10,
  timerMinFailureMs: 300_000,
  walletExportsPerHour: 3,
  fleetMembers: 1_000,
  /** Failed calls per tool and caller to addresses that the caller named. */
  failedCallsPerWindow: 30,
  failedCallsWindowSeconds: 300,
  /** Per response of a language model. */
  llmTokens: 4_000,
  /** Requests of one caller to language models, over all tools. */
  llmPerMinute: 30,
  /** Hive entries of an agent with a key per UTC day. */
  hiveWritesPerDay: 500,
  /** Tools that an agent sells, and how often it registers or changes one per hour. */
  communityTools: 20,
  communityToolChangesPerHour: 60,
  /** A schema of a community tool. */
  communitySchemaBytes: 32 * KIB,
  communitySchemaDepth: 12,
  /** Subschemas that a validation applies, through all references. */
  communitySchemaNodes: 2_000,
  communitySchemaPatterns: 16,
  /** Characters of one text in it. */
  communitySchemaProse: 500,
  communityUniqueItems: 256,
  /** Tools of agents with an operation of their own in the OpenAPI document. */
  communityOperations: 200,
  /** A call of a builder, and its answer. */
  communityCallMs: 15_000,
  communityAnswerBytes: 1024 * KIB,
  /** Calls of one builder's tools that run at once on a node. */
  communityCallsInFlight: 64,
  /** Of these, of one caller: no caller uses up a builder for the others. */
  communityCallsInFlightPerCaller: 16,
  /** A document or a list of tools that is imported, and its operations. */
  importedDocumentBytes: 2 * 1024 * KIB,
  importedOperations: 1_000,
  /** Of the schemas that one import converts. */
  importedSourceChars: 2 * 1024 * KIB,
  /** Refunded calls of community tools. */
  communityRefundDays: 30,
  /** Days that an answer is kept whose payment has ended. */
  withheldAnswerDays: 1,
  /** Notice of a higher price, and how long a quoted one still applies. */
  communityPriceNoticeHours: 24,
  communityPriceHoldSeconds: 60,
  /** Input that the builder refuses is refunded so often per agent, tool and hour. */
  communityCallerErrorsPerHour: 20,
  /** Concurrent Hive watches. */
  hiveWatches: 10,
  /** Matches of watches, and ended watches. */
  hiveMatchDays: 30,
  /** Featured entries. */
  hiveFeatureDays: 90,
  /** Searches of the public Hive per address. */
  hiveSearchesPerHour: 20,
  /** Ranked agents that are read at once. */
  milestonesMax: 100,
  /** Of these, posts of agents that have paid nothing with money from outside. */
  milestonesOfUnpaidMax: 20,
  leaderboardMax: 100,
  /** Streams of public figures of one address, and of a node. */
  statsStreamsPerAddress: 5,
  statsStreams: 500,
  /** Free vault writes in an agent's lifetime. */
  vaultFreeWrites: 500,
  vaultContent: 4_000,
  /** Newest memories that a query compares. */
  vaultRecallCandidates: 2_000,
  /** Newest memories that a new memory is compared with. */
  vaultCompared: 500,
  vaultCompress: 50,
  vaultSummaries: 5,
  vaultDream: 80,
  /** Insights of earlier dreams that a dream must not repeat. */
  vaultDreamt: 200,
  vaultExport: 5_000,
  /** Vault queries and their results. */
  vaultQueryDays: 90,
  strategyParamsBytes: 8 * KIB,
  /** Unknown e-mail addresses get no mail for this time; they may be assigned later. */
  mailBounceDays: 30,
  /** Addresses that an agent lists in the registry of pay-per-call APIs. */
  registeredApis: 20,
  /** Probes of one host, of all callers and nodes, and how long the answer of one is repeated. */
  probeSeconds: 60,
  /** Probes and proofs of origin that an address asks for. */
  probesPerMinute: 10,
  probeAnswerBytes: 128 * KIB,
  /** Listed addresses with a proven owner are probed each hour. */
  apiProbeHours: 1,
  /** An address that has not asked for a payment for this time is listed no more. */
  apiUnseenDays: 3,
  /** Probes of listed addresses, which make their uptime and their price history. */
  apiHistoryDays: 30,
  apiUptimeDays: 7,
  apiPriceChanges: 50,
  /** Resources of one other Bazaar. */
  bazaarResources: 1_000,
  /** The file by which the owner of an origin proves that he controls it. */
  originChallengeBytes: 16 * KIB,
  /** Open sockets of the inspector on a node. */
  inspectorWatchers: 20,
  /** Latest rejections of an agent that `why_url` explains, and their lifetime. */
  explainedRefusals: 100,
  explainedRefusalDays: 7,
  bountyHours: 168,
  bountyMaxHours: 720,
  bountyKeywords: 20,
  bountyContent: 20_000,
  /** Memories of a listing, and new listings of an agent per UTC day. */
  listingEntries: 200,
  listingsPerDay: 20,
} as const

/** Windows (decision 14): each takes `burst` requests and ends `burst / perSecond` seconds after its first one. */
export const TOKEN_BUCKET_RATES = {
  refuel: { perSecond: 50, burst: 100 },
  write: { perSecond: 10, burst: 20 },
  read: { perSecond: 100, burst: 200 },
  /** Keys and Backpacks: separate, so that a busy agent cannot block its owner from stopping it. */
  manage: { perSecond: 1, burst: 30 },
  /** Plans: ten per hour. */
  plan: { perSecond: 10 / 3_600, burst: 10 },
  /** Started crews, also failing ones: six per minute. */
  crew: { perSecond: 6 / 60, burst: 6 },
  /** Calls taken back: they cost the station work and their caller nothing. */
  cancel: { perSecond: 1 / 60, burst: 10 },
} as const
export type TokenBucketClass = keyof typeof TOKEN_BUCKET_RATES

/** The client of a Gas Station for programs. */

export {
  GasStation,
  type AgentKeyTerms,
  type AgentProfile,
  type BackpackSummary,
  type BalanceReply,
  type FuseLimits,
  type GasStationOptions,
  type OnboardedAgentReply,
} from './gas-station-client.ts'
export { BudgetTask, type TaskState } from './budget-task.ts'
export type { CallStreamEvent } from './call-stream.ts'
export {
  PaymentHook,
  type MppSigner,
  type PaymentOptions,
  type PinnedAsset,
} from './payment-hook.ts'
export type { SignalEvent, SignalStreamOptions } from './signal-stream.ts'
export type { SignedSpend, SpendingCapOptions } from './spending-caps.ts'
export {
  StationSocket,
  type SocketEvent,
  type StationSocketOptions,
  type WebSocketLike,
} from './station-socket.ts'
export {
  BudgetExceeded,
  Conflict,
  FuseTripped,
  GasStationError,
  InvalidRequest,
  NotAllowed,
  NotAStation,
  NotFound,
  OutcomeUnknown,
  PaymentNotMade,
  PaymentRefused,
  PaymentRequired,
  RateLimited,
  RedirectRefused,
  SettlementUnknown,
  StationRefusal,
  StationUnavailable,
  StationUnreachable,
  StreamBroken,
  ToolFailed,
  toStationRefusal,
  Unauthenticated,
  type PaymentWay,
  type StationProblem,
} from './station-errors.ts'
export type {
  InputOf,
  ListedTool,
  OutputOf,
  ToolCallOptions,
  ToolFunctions,
  ToolName,
  ToolQuote,
  ToolReply,
  ToolReplyMeta,
} from './tool-call-types.ts'
export type { ToolTypes } from './tools/tool-types.ts'
export type { SolanaSigner, SolanaTransfer, TypedDataToSign, X402Signer } from './x402-payloads.ts'

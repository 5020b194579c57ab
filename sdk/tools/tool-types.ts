import type { CommsToolTypes } from './comms-tool-types.ts'
import type { ComputeToolTypes } from './compute-tool-types.ts'
import type { FinanceToolTypes } from './finance-tool-types.ts'
import type { IntelligenceToolTypes } from './intelligence-tool-types.ts'
import type { Intelligence2ToolTypes } from './intelligence-2-tool-types.ts'
import type { MemoryToolTypes } from './memory-tool-types.ts'
import type { OnchainToolTypes } from './onchain-tool-types.ts'
import type { PerceptionToolTypes } from './perception-tool-types.ts'
import type { WebToolTypes } from './web-tool-types.ts'

/** Generated from the catalogue by `npm run docs:sdk`. */
export interface ToolTypes extends CommsToolTypes, ComputeToolTypes, FinanceToolTypes, IntelligenceToolTypes, Intelligence2ToolTypes, MemoryToolTypes, OnchainToolTypes, PerceptionToolTypes, WebToolTypes {}

import { createAggregateStore } from '../../persistence/aggregate-store.ts'
import { createBackpackAccountStatementStore } from '../../persistence/account-statement/backpack-account-statement-store.ts'
import { createCallLogStore } from '../../persistence/calls/call-log-store.ts'
import { createBackpackClipboardStore } from '../../persistence/agents/backpack-clipboard-store.ts'
import { createCreditDropStore } from '../../persistence/payments/credit-drop-store.ts'
import { createKeyringStore } from '../../persistence/agents/backpack-keyring-store.ts'
import { createApiKeyStore } from '../../persistence/agents/api-key-store.ts'
import { createAgentMessageStore } from '../../persistence/agents/agent-message-store.ts'
import { createIdempotentWrites } from '../../persistence/idempotency/idempotent-writes.ts'
import { createTasksAndBackpacksListStore } from '../../persistence/agents/task-backpack-list-store.ts'
import { createAgentProfileStore } from '../../persistence/agents/agent-profile-store.ts'
import { createOwnerSessionStore } from '../../persistence/agents/owner-session-store.ts'
import { createReferralStore } from '../../persistence/agents/referral-store.ts'
import { createAccountStatementStore } from '../../persistence/account-statement/account-statement-store.ts'
import { createAgentTransferStore } from '../../persistence/payments/agent-transfer-store.ts'
import { createAgentDirectoryStore } from '../../persistence/agents/agent-directory-store.ts'
import { createCookbookBadgeStore } from '../../persistence/agents/cookbook-badge-store.ts'
import { createManifestoSignatureStore } from '../../persistence/agents/manifesto-signature-store.ts'
import { createPublicStatistics } from '../../memory/statistics/public-statistics.ts'
import { createPublicStatisticsStore } from '../../persistence/statistics/public-statistics-store.ts'
import { createMilestoneStore } from '../../persistence/statistics/milestone-store.ts'
import { createDailyByteCounter } from '../../persistence/daily-stored-byte-quotas.ts'
import type { StationInfrastructure } from './compose-infrastructure.ts'

/** Composes stores that several parts share. */

export type ComposeStoresDeps = Pick<
  StationInfrastructure,
  'clock' | 'plane' | 'sql' | 'own' | 'sealingFor'
>

/** Creates the stores that several parts or the routes use. */
export function composeStores({ clock, plane, sql, own, sealingFor }: ComposeStoresDeps) {
  return {
    aggregates: createAggregateStore(plane.commitSql),
    /** Stores for the routes. */
    served: {
      callLog: createCallLogStore(sql),
      keptBytes: createDailyByteCounter(sql, clock),
      keys: createApiKeyStore(sql, own.pepper),
      profiles: createAgentProfileStore(sql),
      ownerSessions: createOwnerSessionStore(sql),
      keyring: createKeyringStore(sql, sealingFor('keyring')),
      clipboard: createBackpackClipboardStore(sql),
      messages: createAgentMessageStore(sql),
      once: createIdempotentWrites(sql, clock, sealingFor('answers')),
      referrals: createReferralStore(sql),
      drops: createCreditDropStore(sql),
      ledger: createAgentTransferStore(sql),
      ownLists: createTasksAndBackpacksListStore(sql),
      statements: createAccountStatementStore(sql),
      backpackStatements: createBackpackAccountStatementStore(sql),
      directory: createAgentDirectoryStore(sql),
      cookbook: createCookbookBadgeStore(sql),
      manifesto: createManifestoSignatureStore(sql),
      statistics: createPublicStatistics(
        createPublicStatisticsStore(sql),
        createMilestoneStore(sql),
        clock,
      ),
    },
  }
}

export type StationStores = ReturnType<typeof composeStores>

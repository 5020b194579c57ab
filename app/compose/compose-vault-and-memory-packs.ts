import { MEMORY_PACK_BUNDLE, MEMORY_PACKS } from '../../memory/packs/memory-pack-catalogue.ts'
import { createVaultRecallAndStatsService } from '../../memory/vault/memory-vault-service.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createVaultStore } from '../../persistence/vault/vault-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import type { ToolPorts } from '../../tools/tool-ports.ts'

/** Creates the private memory of agents and the memory packs, for tools and routes. */
export function composeVaultAndMemoryPacks(sql: Sql) {
  const store = createVaultStore(sql)
  const vault = createVaultRecallAndStatsService(store)
  const installs = (agentId: string) => withDatabaseAnswerTimeout(store.installed(agentId))
  const ports: Pick<ToolPorts, 'vault' | 'packs'> = {
    vault: {
      recall: (recallQuery) => withDatabaseAnswerTimeout(vault.recall(recallQuery)),
      byIds: (agentId, ids, at) => withDatabaseAnswerTimeout(vault.these(agentId, ids, at)),
      withText: (asked, at) => withDatabaseAnswerTimeout(vault.withText(asked, at)),
      successorOf: (agentId, memoryId) =>
        withDatabaseAnswerTimeout(vault.successorOf(agentId, memoryId)),
      oldest: (agentId, limit, at) => withDatabaseAnswerTimeout(vault.oldest(agentId, limit, at)),
      newest: (agentId, limit, at) => withDatabaseAnswerTimeout(vault.newest(agentId, limit, at)),
      insights: (agentId, limit, at) =>
        withDatabaseAnswerTimeout(vault.insights(agentId, limit, at)),
      unansweredQueries: (agentId, limit) =>
        withDatabaseAnswerTimeout(vault.misses(agentId, limit)),
      isPromoted: (memoryId) => withDatabaseAnswerTimeout(vault.isPromoted(memoryId)),
      reservePromotion: (memoryId, callId, at) =>
        withDatabaseAnswerTimeout(vault.takePromotion(memoryId, callId, at)),
    },
    packs: {
      packs: MEMORY_PACKS,
      bundle: MEMORY_PACK_BUNDLE,
      listInstalled: async (agentId) => (await installs(agentId)).map(({ pack }) => pack),
    },
  }
  const { all, received } = store
  return {
    ports,
    served: {
      vault: { stats: vault.stats, all, received },
      packs: { packs: MEMORY_PACKS, bundle: MEMORY_PACK_BUNDLE, installs },
    },
  }
}

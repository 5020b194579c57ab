import { bundle, packs } from '../memory/packs/shelf.ts'
import { createVault } from '../memory/vault.ts'
import type { Sql } from '../persistence/plane.ts'
import { vaultStore } from '../persistence/vault.ts'
import { answered } from '../persistence/within.ts'
import type { Ports } from '../tools/ports.ts'

/** The private memory of agents and the packs that are sold, for tools and for routes. */
export function composeVault(sql: Sql) {
  const store = vaultStore(sql)
  const vault = createVault(store)
  const installs = (agentId: string) => answered(store.installed(agentId))
  const ports: Pick<Ports, 'vault' | 'packs'> = {
    vault: {
      recall: (asked) => answered(vault.recall(asked)),
      these: (agentId, ids, at) => answered(vault.these(agentId, ids, at)),
      heirOf: (agentId, memoryId) => answered(vault.heirOf(agentId, memoryId)),
      oldest: (agentId, limit, at) => answered(vault.oldest(agentId, limit, at)),
      newest: (agentId, limit, at) => answered(vault.newest(agentId, limit, at)),
      insights: (agentId, limit, at) => answered(vault.insights(agentId, limit, at)),
      misses: (agentId, limit) => answered(vault.misses(agentId, limit)),
      isPromoted: (memoryId) => answered(vault.isPromoted(memoryId)),
      takePromotion: (memoryId, callId, at) => answered(vault.takePromotion(memoryId, callId, at)),
    },
    packs: {
      packs,
      bundle,
      installed: async (agentId) => (await installs(agentId)).map(({ pack }) => pack),
    },
  }
  const { all, received } = store
  return {
    ports,
    served: { vault: { stats: vault.stats, all, received }, packs: { packs, bundle, installs } },
  }
}

import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Badges of cookbook recipes: numbered, one an agent and recipe, a fixed number a recipe. */

export interface CookbookBadge {
  readonly number: number
  readonly claimedAt: Date
}

/** Reads and awards badges. */
export function createCookbookBadgeStore(sql: Sql) {
  return {
    /** Badges awarded, by recipe; recipes without one are missing. */
    async counts(): Promise<ReadonlyMap<string, number>> {
      const rows = await sql<{ recipe: string; awarded: number }[]>`
        select recipe, awarded from cookbook_recipes`
      return new Map(rows.map(({ recipe, awarded }) => [recipe, awarded]))
    },

    /** Of these tools, the ones that the agent has never called with success. */
    async neverCalled(agentId: string, tools: readonly string[]): Promise<string[]> {
      const rows = await sql<{ tool: string }[]>`
        select tool from unnest(${[...tools]}::text[]) tool
         where not exists (select from calls where owner = ${agentId} and calls.tool = tool.tool
                             and status = 'ok')`
      return rows.map(({ tool }) => tool)
    },

    /**
     * Awards the next number, once an agent: a repeated claim gets the first badge. Returns null when all
     * numbers are awarded. The row of the recipe is locked, so numbers have no gap and no double.
     */
    async award(
      tx: DatabaseTransaction,
      recipe: string,
      agentId: string,
      max: number,
      at: Date,
    ): Promise<CookbookBadge | null> {
      await tx`insert into cookbook_recipes (recipe) values (${recipe}) on conflict do nothing`
      const [row] = await tx<{ awarded: number }[]>`
        select awarded from cookbook_recipes where recipe = ${recipe} for update`
      const [own] = await tx<{ number: number; claimed_at: Date }[]>`
        select number, claimed_at from cookbook_badges
         where recipe = ${recipe} and agent_id = ${agentId}`
      if (own !== undefined) return { number: own.number, claimedAt: own.claimed_at }
      const number = (row?.awarded ?? 0) + 1
      if (number > max) return null
      await tx`update cookbook_recipes set awarded = ${number} where recipe = ${recipe}`
      await tx`insert into cookbook_badges (recipe, number, agent_id, claimed_at)
               values (${recipe}, ${number}, ${agentId}, ${at})`
      return { number, claimedAt: at }
    },
  }
}
export type CookbookBadgeStore = ReturnType<typeof createCookbookBadgeStore>

import { decideCommunityToolVerificationCommand } from '../../../actors/commands/community-tool-commands.ts'
import { ServiceError } from '../../../core/errors.ts'
import {
  COMMUNITY_TOOLS_TOPIC,
  communityToolAggregateId,
} from '../../../domain/community-tool-record.ts'
import { createCommunityToolStore } from '../../../persistence/tools/community-tool-store.ts'
import { printJson, printLine } from '../cli-output.ts'
import { withStationDatabase } from './database-for-cli.ts'
import { withCliActorRuntime } from './temporary-actor-runtime-for-cli.ts'

/** `gas tools review`: the mark `verified`, directly in the database. */

/** Lists the tools whose builders ask for the mark. */
export const listToolsAwaitingVerification = (asJson: boolean): Promise<number> =>
  withStationDatabase(async ({ sql }) => {
    const tools = await createCommunityToolStore(sql).awaitingReview()
    if (!asJson && tools.length === 0) printLine('no tool waits for a review')
    for (const { slug, builderId, builderName, definition, state } of tools) {
      const { name, description, forward } = definition
      const about = { slug, name, description, url: forward.url, state }
      if (asJson) printJson({ ...about, builder: builderName, builder_id: builderId })
      else printLine(`${slug}  ${state}  ${forward.url}  ${builderName}: ${description}`)
    }
    return 0
  })

/** Gives the mark, or refuses it with a reason that the builder reads. */
export const decideToolVerification = (slug: string, reason: string | null): Promise<number> =>
  withStationDatabase(async ({ sql, bus }) => {
    if ((await createCommunityToolStore(sql).find(slug)) === null)
      throw new ServiceError('unknown_tool', { tool: slug })
    const verdict = { accepted: reason === null, reason }
    const { state, context } = await withCliActorRuntime(sql, ({ ask }) =>
      ask(communityToolAggregateId(slug), decideCommunityToolVerificationCommand, verdict),
    )
    await bus.publish(COMMUNITY_TOOLS_TOPIC, slug)
    printLine(`${slug}  ${context.review}  ${state}`)
    return 0
  })

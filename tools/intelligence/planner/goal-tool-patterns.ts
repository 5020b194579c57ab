import {
  goalAsksForOtherAgents,
  goalAsksForMail,
  goalAsksToNotifyOwner,
  createGoalPatternPredicate,
  goalNamesTokenSymbol,
} from './goal-text-predicates-for-tool-selection.ts'
import type { ParsedGoal } from './parse-goal.ts'

/** A pattern in a goal, and the tool that serves it. */
export interface GoalToolPattern {
  readonly intent: string
  /** The slug of a tool, or the path of a route. */
  readonly by: string
  readonly purpose: string
  /** Order of steps: 1 reads, 2 analyses, 3 acts, 4 repeats. */
  readonly phase: 1 | 2 | 3 | 4
  readonly matchesGoal: (goal: ParsedGoal) => boolean
  /** Used only where no other step reads or analyses, except the one it replaces. */
  readonly isFallback?: true
  /** Dropped when this tool is selected, since it does the same. */
  readonly unless?: string
}

const MOVES =
  /\b(?:drops?|falls?|rises?|dips?|hits?|reach(?:es)?|crosses|goes|moves?|above|below|over|under|buy|sell|trad\w+|swap|arbitrage)\b/i
const DATA = /\b(?:api|(?<!to (?:a )?)(?:json|csv)|endpoint|download|feed)\b/i
const FORM = /\b(?:fill|submit|log ?in|sign ?up|click|check ?out|book)\b/i

/** Every tool that words can ask for. Tools missing on a station are skipped. */
export const GOAL_TOOL_PATTERNS: readonly GoalToolPattern[] = [
  {
    intent: 'prices',
    by: 'price_feed',
    purpose: 'Read the prices',
    phase: 1,
    matchesGoal: (goal) =>
      goalNamesTokenSymbol(goal)
        ? createGoalPatternPredicate(/\b(?:prices?|quotes?|worth|value|costs?|market)\b/i)(goal) ||
          createGoalPatternPredicate(MOVES)(goal)
        : createGoalPatternPredicate(/\b(?:crypto\w*|coins?|tokens?)\b/i)(goal) &&
          createGoalPatternPredicate(/\b(?:prices?|quotes?)\b/i)(goal),
  },
  {
    intent: 'trading',
    by: 'onchain_insight',
    purpose: 'Look at liquidity and risks',
    phase: 1,
    matchesGoal: (goal) =>
      (goalNamesTokenSymbol(goal) ||
        goal.addresses.length > 0 ||
        createGoalPatternPredicate(/\b(?:tokens?|defi)\b/i)(goal)) &&
      createGoalPatternPredicate(
        /\b(?:liquidity|pools?|on.?chain|dex(?:es)?|whale flows?|rug\w*|scam|risks?|risky|buy|sell|trad(?:e|es|ing)|swaps?|invest\w*|arbitrage|yields?)\b/i,
      )(goal),
  },
  {
    intent: 'wallets',
    by: 'wallet_investigate',
    purpose: 'Look at the wallet on each chain',
    phase: 1,
    matchesGoal: (goal) =>
      createGoalPatternPredicate(/\b(?:wallets?|holdings?|portfolios?)\b/i)(goal) ||
      (goal.addresses.length > 0 &&
        !createGoalPatternPredicate(
          /\b(?:tokens?|contracts?|simulat\w*|calldata|transactions?|liquidity)\b/i,
        )(goal)),
  },
  {
    intent: 'scraping',
    by: 'agent_see',
    purpose: 'Read the page',
    phase: 1,
    matchesGoal: (goal) =>
      goal.urls.length > 0
        ? !createGoalPatternPredicate(DATA)(goal) && !createGoalPatternPredicate(FORM)(goal)
        : createGoalPatternPredicate(/\b(?:scrap(?:e|es|ing)|crawl|web ?pages?|html)\b/i)(goal),
  },
  {
    intent: 'scraping',
    by: 'data_retrieval',
    purpose: 'Fetch the data',
    phase: 1,
    matchesGoal: (goal) =>
      goal.urls.length > 0
        ? createGoalPatternPredicate(DATA)(goal)
        : createGoalPatternPredicate(
            /\b(?:fetch|download|call|retrieve)\b[^.]{0,40}\b(?:api|json|csv|urls?|endpoint)\b/i,
          )(goal),
  },
  {
    intent: 'research',
    by: 'deep_search',
    purpose: 'Answer with cited sources',
    phase: 1,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:research|stud(?:y|ies)|in.?depth|deep dive|reports? (?:on|about)|competitors?|learn about|find out|cited|investigate (?!(?:the |this |my )?(?:wallet|address|token)))/i,
    ),
  },
  {
    intent: 'research',
    by: 'web_search',
    purpose: 'Find sources',
    phase: 1,
    unless: 'deep_search',
    matchesGoal: createGoalPatternPredicate(
      /\b(?:search the (?:web|internet)|web search|google|(?<!hacker ?)news|headlines|sources|online|on the (?:web|internet)|latest)\b/i,
    ),
  },
  {
    intent: 'sentiment',
    by: 'social_oracle',
    purpose: 'Hear what people say',
    phase: 1,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:social media|sentiment|people (?:are )?(?:say|think|feel|talk)\w*|reddit|twitter|hacker ?news|farcaster|bluesky|mastodon|opinions?|buzz|mood)\b/i,
    ),
  },
  {
    intent: 'memory',
    by: 'vault_query',
    purpose: 'Find it again',
    phase: 1,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:recall|(?:do|did) (?:you|i) remember|what (?:do|did) i (?:know|remember|write|note|save)|(?:search|look|find|read)\b[^.]{0,40}\bmy (?:notes|memor\w+|vault))\b/i,
    ),
  },
  {
    intent: 'hive',
    by: 'hive_read',
    purpose: 'See what other agents know',
    phase: 1,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:(?:search|read|check|look|from|in) (?:in )?the hive|(?:other )?agents (?:have )?(?:know|found|learned|shared?|(?:are )?saying))\b/i,
    ),
  },
  {
    intent: 'hive',
    by: 'hive_trending',
    purpose: 'See what heats up',
    phase: 1,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:trending|heat(?:s|ing) up|hot topics?|trends?)\b/i,
    ),
  },
  {
    intent: 'collaboration',
    by: 'agent_reputation',
    purpose: 'See whom to trust',
    phase: 1,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:reputation|trustworthy|trust (?:this|the|that|an?) agent|reliab\w+ agents?)\b/i,
    ),
  },
  {
    intent: 'research',
    by: 'web_search',
    purpose: 'Find sources',
    phase: 1,
    isFallback: true,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:find|search|look up|discover|who|where|which|how|why|when (?:is|was|did)|buy|book|order|cheap\w*|best|tell me about|history of|weather)\b|^\W*(?:what|when|is|are|was|were|do|does|did|will|has|have|should)\b/i,
    ),
  },
  {
    intent: 'research',
    by: 'deep_search',
    purpose: 'Answer with cited sources',
    phase: 1,
    isFallback: true,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:compar(?:e|ison)|analy[sz]e|analysis|investigate)\b/i,
    ),
  },
  {
    intent: 'fact_check',
    by: 'hallucination_pill',
    purpose: 'Check the claims',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:fact.?check\w*|verif(?:y|ication)|is it (?:true|correct)|true or false|claims?|hallucinat\w*|correct that)\b/i,
    ),
  },
  {
    intent: 'consensus',
    by: 'hive_consensus',
    purpose: 'Weigh what agents say',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:consensus|ask (?:the )?(?:other |all )?agents|agents (?:agree|think|say|believe)|do agents)\b/i,
    ),
  },
  {
    intent: 'forecast',
    by: 'hive_forecast',
    purpose: 'Put a number on it',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:forecasts?|predict\w*|outlook|probabilit\w+|how likely|odds|chances?)\b/i,
    ),
  },
  {
    intent: 'transactions',
    by: 'tx_simulate',
    purpose: 'Simulate before signing',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:simulat\w+|dry.?run|gas estimates?|estimate (?:the )?gas|calldata|reverts?|broadcast\w* (?:a |the |my )?(?:tx|transaction))\b/i,
    ),
  },
  {
    intent: 'payments',
    by: 'x402_parse',
    purpose: 'Read what a payment asks for',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(/\bx402\b/i),
  },
  {
    intent: 'code',
    by: 'code_sandbox',
    purpose: 'Run the code',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:python|javascript|bash|code|scripts?|program|comput\w+|calculat\w+|average|csv|pars(?:e|ing)|convert|sort|regex|statistics?|standard deviation)\b/i,
    ),
  },
  {
    intent: 'writing',
    by: 'llm_routing',
    purpose: 'Write the text',
    phase: 2,
    matchesGoal: (goal) =>
      createGoalPatternPredicate(
        /\b(?:translat\w+|rewrite|write|draft|classif\w+|paraphras\w+|compose|newsletters?|digest|blog|essay|tweet|jokes?|poems?|haikus?|lyrics|slogans?|outreach|campaigns?)\b/i,
      )({
        ...goal,
        words: goal.words.replace(/\bwrite (?:it |this |that |them )?(?:to|into|in|down)\b/gi, ' '),
      }),
  },
  {
    intent: 'writing',
    by: 'llm_routing',
    purpose: 'Put it in words',
    phase: 2,
    unless: 'deep_search',
    matchesGoal: createGoalPatternPredicate(
      /\b(?:summar(?:y|i[sz]\w*)|explain|analy[sz]e|analysis|compar(?:e|ison))\b/i,
    ),
  },
  {
    intent: 'audit',
    by: 'self_audit',
    purpose: 'See where the money goes',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:self.?audit|audit my|my (?:own )?(?:spending|spend|costs|calls|usage))\b/i,
    ),
  },
  {
    intent: 'audit',
    by: 'agent_evolve',
    purpose: 'Get better settings proposed',
    phase: 2,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:optimi[sz]e|improve|evolve|tune) my (?:own )?(?:settings|agent|backpacks?|schedules?|spend\w*|costs)\b/i,
    ),
  },
  {
    intent: 'acting',
    by: 'agent_act',
    purpose: 'Fill and submit forms',
    phase: 3,
    matchesGoal: (goal) =>
      createGoalPatternPredicate(FORM)(goal) &&
      (goal.urls.length > 0 ||
        createGoalPatternPredicate(/\b(?:forms?|web ?sites?|web ?pages?|button)\b/i)(goal)),
  },
  {
    intent: 'transactions',
    by: 'tx_broadcast',
    purpose: 'Send the signed transaction',
    phase: 3,
    matchesGoal: (goal) =>
      goal.transactions.length > 0 ||
      createGoalPatternPredicate(
        /\b(?:broadcast\w*|send(?! (?:me|us)\b)|submit)\b[^.]{0,40}\b(?:transactions?|txn?)\b|\b(?:push|relay|publish|propagate|forward|put)\b[^.]{0,20}\b(?:pre-?)?(?:signed|raw)\b[^.]{0,20}\b(?:transactions?|txn?)\b|\bbroadcasting\b/i,
      )(goal),
  },
  {
    intent: 'agents',
    by: 'genesis_forge',
    purpose: 'Make the bundle of a new agent',
    phase: 3,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:creat\w+|make|build|bootstrap|spawn|generate|set up|launch)\b[^.]{0,40}\b(?:agent|specialist|bot)\b/i,
    ),
  },
  {
    intent: 'strategies',
    by: 'strategy_publish',
    purpose: 'Publish the strategy',
    phase: 3,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:publish|sell|offer)\b[^.]{0,40}\bstrateg(?:y|ies)\b/i,
    ),
  },
  {
    intent: 'strategies',
    by: 'strategy_fork',
    purpose: 'Take a copy of a strategy',
    phase: 3,
    matchesGoal: createGoalPatternPredicate(/\b(?:fork|copy)\b[^.]{0,40}\bstrateg(?:y|ies)\b/i),
  },
  {
    intent: 'hive',
    by: 'hive_write',
    purpose: 'Write down what was found',
    phase: 3,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:share|publish|post|write|store|put|save)\b[^.]{0,60}\b(?:hive|shared memory|with (?:other|all) agents)\b/i,
    ),
  },
  {
    intent: 'hive',
    by: 'hive_watch',
    purpose: 'Be told of new entries',
    phase: 3,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:watch|monitor|track|subscribe)\b[^.]{0,60}\b(?:hive|entries)\b/i,
    ),
  },
  {
    intent: 'memory',
    by: 'vault_write',
    purpose: 'Remember it',
    phase: 3,
    matchesGoal: createGoalPatternPredicate(
      /^\W*(?:please )?remember\b|\b(?:remember (?:it|that|this|them)|memori[sz]e|note down|(?:save|store|keep|put|write)\b[^.]{0,60}\b(?:vault|memory|notes?|for later))\b/i,
    ),
  },
  {
    intent: 'outreach',
    by: 'email_send',
    purpose: 'Send the e-mail',
    phase: 3,
    matchesGoal: goalAsksForMail,
  },
  {
    intent: 'collaboration',
    by: '/api/agent/send',
    purpose: 'Send the credits',
    phase: 3,
    matchesGoal: (goal) =>
      createGoalPatternPredicate(
        /\b(?:send|pay|transfer|give)\b[^.]{0,30}\b\d+(?:\.\d+)? ?(?:usdc|credits?|dollars)\b/i,
      )(goal),
  },
  {
    intent: 'collaboration',
    by: 'agent_ping',
    purpose: 'Tell the agent',
    phase: 3,
    matchesGoal: (goal) =>
      goal.agents.length > 0
        ? createGoalPatternPredicate(/\b(?:tell|ping|message|ask|notify|write)\b/i)(goal)
        : createGoalPatternPredicate(
            /\b(?:tell|ping|message|notify|contact) (?:the |an |another |my )?(?:other )?agent\b/i,
          )(goal),
  },
  {
    intent: 'collaboration',
    by: 'swarm_broadcast',
    purpose: 'Tell all who are about',
    phase: 3,
    matchesGoal: (goal) =>
      goalAsksForOtherAgents(goal) &&
      createGoalPatternPredicate(/\b(?:tell|broadcast|announce|notify|warn|alert|message)\b/i)(
        goal,
      ),
  },
  {
    intent: 'monitoring',
    by: '/api/agent/ping-owner',
    purpose: 'Tell your owner',
    phase: 3,
    matchesGoal: (goal) => goalAsksToNotifyOwner(goal) && !goalAsksForMail(goal),
  },
  {
    intent: 'monitoring',
    by: '/api/task/schedule',
    purpose: 'Run it again and again',
    phase: 4,
    matchesGoal: createGoalPatternPredicate(
      /\b(?:every (?:\d+ )?(?:minutes?|hours?|days?|weeks?|morning|evening|night|monday|friday)|hourly|daily|weekly|each (?:hour|day|week|morning)|schedule|monitor|keep an eye|track|watch)\b/i,
    ),
  },
]

import {
  createVerbWithSubcommands,
  CLI_LIMIT_OPTION,
  fetchStationListPages,
  parseListOption,
  parseAmountOption,
  parseNumberOption,
  readRequiredOption,
  withoutNulls,
} from './cli-verb-with-subcommands.ts'

/** `gas bounty`. */
export const bountyCliVerb = createVerbWithSubcommands({
  about:
    'A bounty is a reward in escrow: the first claim with all its keywords is paid at once. Without a claim the reward returns after its hours.',
  options: {
    reward: { value: 'USDC', description: 'post: what a matching claim is paid' },
    domain: { value: 'D', description: 'post: the subject, such as defi' },
    description: { value: 'TEXT', description: 'post: what is wanted' },
    keywords: { value: 'A,B', description: 'post: words that a claim must contain' },
    hours: { value: 'N', description: 'post: how long it is open' },
    content: { value: 'TEXT', description: 'claim: the answer' },
    score: { value: '0-100', description: 'post: the lowest score of a claim' },
    status: { value: 'S', description: 'ls: open, claimed or expired' },
    mine: { description: 'ls: those that this agent posted' },
    ...CLI_LIMIT_OPTION,
  },
  examples: [
    'gas bounty post "Base fees" --domain defi --description "A summary" --reward 0.1 --keywords base,fees',
    'gas bounty ls --status open',
  ],
  actions: {
    ls: {
      form: '[--mine] [--status S] [--limit N]',
      run: async (client, given) => {
        const status = given.text('status')
        const query = status === null ? '' : `?status=${encodeURIComponent(status)}`
        const path = given.has('mine') ? '/api/bounties/mine' : '/api/bounties'
        return {
          rows: await fetchStationListPages(client, `${path}${query}`, 'bounties', given),
          columns: ['bounty_id', 'status', 'reward_usdc', 'domain', 'title', 'expires_at'],
        }
      },
    },
    show: {
      form: '<id>',
      run: (client, { words: [id = ''] }) => client.request('GET', pathOf(id)),
    },
    post: {
      form: '<title> --domain D --description TEXT --reward USDC [--keywords A,B] [--score 0-100] [--hours N]',
      run: (client, given) => {
        const [keywords, hours] = [given.text('keywords'), given.text('hours')]
        const score = given.text('score')
        return client.write('POST', '/api/bounties', {
          body: withoutNulls({
            title: given.words[0],
            domain: readRequiredOption(given, 'domain'),
            description: readRequiredOption(given, 'description'),
            reward_usdc: parseAmountOption(readRequiredOption(given, 'reward'), '--reward'),
            required_keywords: keywords === null ? null : parseListOption(keywords),
            min_quality_score: score === null ? null : parseNumberOption(score, '--score'),
            ttl_hours: hours === null ? null : parseNumberOption(hours, '--hours'),
          }),
        })
      },
    },
    claim: {
      form: '<id> --content TEXT',
      run: (client, given) =>
        client.write('POST', `${pathOf(given.words[0] ?? '')}/claim`, {
          body: { content: readRequiredOption(given, 'content') },
        }),
    },
    cancel: {
      form: '<id>',
      run: (client, { words: [id = ''] }) => client.write('DELETE', pathOf(id)),
    },
  },
})

const pathOf = (id: string): string => `/api/bounties/${encodeURIComponent(id)}`

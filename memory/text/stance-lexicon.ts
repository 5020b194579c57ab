/**
 * Antonyms, one axis per line; the words of a side are synonyms. They are compared by stems:
 * `useful` is missing, since its stem is that of `use`.
 */
export const ANTONYM_AXES: readonly (readonly [plus: string, minus: string])[] = [
  [
    'rise rises rising rose increase grow grew growth climb surge soar rally jump up upward higher gain bull bullish appreciate appreciation uptrend expand rebound recover',
    'fall falls falling fell decrease shrink decline drop plunge crash slump down downward lower lose lost loss bear bearish depreciate depreciation downtrend contract sink tumble dip',
  ],
  ['cheap cheaper inexpensive affordable low', 'expensive costly pricey overpriced high dear'],
  ['above over exceed exceeds beyond', 'below under beneath'],
  [
    'safe safer secure secured harmless trustworthy trusted reliable robust audited sound',
    'unsafe risky dangerous insecure vulnerable exploitable harmful untrustworthy unreliable fragile unaudited hacked exploited compromised scam fraud fraudulent rug',
  ],
  [
    'good better best excellent great recommended beneficial healthy worth worthwhile',
    'bad worse worst poor terrible awful useless harmful unhealthy worthless pointless',
  ],
  ['fast faster quick quicker rapid', 'slow slower sluggish delayed'],
  ['strong stronger strength robust', 'weak weaker weakness fragile'],
  ['profitable lucrative profit', 'unprofitable lossmaking'],
  ['stable steady predictable', 'unstable volatile erratic unpredictable depeg depegged'],
  ['buy long accumulate', 'sell short dump'],
  ['more most many', 'less fewer least few'],
  [
    'succeed success successful win pass passes works working',
    'fail fails failed failure lose broken',
  ],
  [
    'accept approve approved support supports allow legal',
    'reject rejected oppose ban banned illegal forbid forbids forbidden prohibited',
  ],
  ['likely probable certain', 'unlikely improbable doubtful'],
  ['possible feasible', 'impossible infeasible'],
  [
    'open opens opened online live available active',
    'close closed offline dead unavailable inactive down',
  ],
  ['outperform outperforms', 'underperform underperforms'],
  ['positive optimistic confident', 'negative pessimistic'],
  ['decentralised decentralized permissionless', 'centralised centralized permissioned'],
  ['before early earlier sooner', 'after late later'],
  ['overvalued', 'undervalued'],
  ['easy easier simple', 'hard harder difficult complex'],
  ['always', 'never'],
  ['enable enables enabled', 'disable disables disabled'],
  ['public', 'private'],
  ['required mandatory', 'optional'],
]

/** Words that negate their clause. */
export const NEGATION_WORDS: ReadonlySet<string> = new Set(
  (
    'not no never none nobody nothing neither nor without cannot hardly scarcely barely rarely seldom ' +
    'false wrong incorrect untrue myth debunked refuted refutes disproved disproves denies deny denied ' +
    'doubt doubts doubted disagree disagrees lack lacks unlike'
  ).split(' '),
)

/** Idioms that only look like a negation; their words are removed before negations are counted. */
export const NON_NEGATING_IDIOMS: readonly (readonly string[])[] = [
  ['not', 'only'],
  ['not', 'just'],
  ['not', 'merely'],
  ['no', 'doubt'],
  ['no', 'wonder'],
  ['without', 'doubt'],
  ['without', 'question'],
  ['nothing', 'but'],
  ['not', 'to', 'mention'],
  ['no', 'matter'],
]

/** Words and signs that start another clause. */
export const CLAUSE_SEPARATORS: ReadonlySet<string> = new Set(
  ', ; : — – but although though however whereas while yet because since despite except unless instead'.split(
    ' ',
  ),
)

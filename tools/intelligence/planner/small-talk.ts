/** Recognises small talk, which needs no tool. */

/** Phrases without a request: greetings, thanks, and questions about the service. */
const SMALL_TALK_PHRASES = [
  'hello|hi|hey|howdy|hola|greetings|welcome|good ?(?:bye|morning|afternoon|evening|day|night)|bye|see you(?: later| soon)?',
  'thank you(?: so| very)?(?: much)?|thanks(?: a lot| so much| very much)?|cheers|nice to meet you|(?:that|this|it) (?:was|is) (?:great|good|nice|helpful|perfect)|well done',
  "how are you(?: doing)?(?: today)?|how(?:'s| is) it going|what(?:'s| is) up|is (?:any|some)body there|are you (?:there|human|real|a bot|a robot|an ai)",
  "(?:who|what) are you|what(?:'s| is) your name|what can you do(?: for (?:me|us))?|can you help(?: me| us)?|help(?: me| us)?|i need (?:some )?help",
  "what time is it(?: now)?|what(?:'s| is) the time|what (?:day|date) is (?:it|today)|what(?:'s| is) (?:the date|today'?s date)(?: today)?",
  'this is a test|test(?:ing)?|ok(?:ay)?|yes|no|sure|great|cool|nice|please|there|again|today|now|and|so|everyone|everybody|all|world|sir|dear|my friend|friends?|agents?|bot|gas station',
]
const SMALL_TALK_PATTERN = new RegExp(
  `^(?:${SMALL_TALK_PHRASES.join('|')})(?![\\p{L}\\p{N}'])[\\s.,;:!?)(-]*`,
  'iu',
)

/** Returns whether a text is small talk only. */
export function isSmallTalk(text: string): boolean {
  let left = text.replace(/[\u2018\u2019]/g, "'").replace(/^[\s\p{P}\p{S}]+/u, '')
  while (left !== '') {
    const match = SMALL_TALK_PATTERN.exec(left)
    if (match === null) return false
    left = left.slice(match[0].length).replace(/^[\p{S}\s]+/u, '')
  }
  return true
}

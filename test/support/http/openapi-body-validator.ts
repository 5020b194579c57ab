import { Ajv2020 } from 'ajv/dist/2020.js'
import type { OpenApiDocument } from '../../../http/openapi/openapi-document-types.ts'

/** Validates bodies against the schemas of the served OpenAPI document. */

/** Returns what is wrong with a value by a reference into the document; an empty text for nothing. */
export type OpenApiBodyValidator = (ref: string, value: unknown) => string

export function createOpenApiBodyValidator(
  document: Pick<OpenApiDocument, 'components'> | object,
): OpenApiBodyValidator {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema(document, 'document')
  return (ref, value) => {
    const validate = ajv.getSchema(`document${ref}`)
    if (validate === undefined) return `the document has no ${ref}`
    return validate(value) === true ? '' : ajv.errorsText(validate.errors)
  }
}

/** A reference to what these keys lead to in the document. */
export const openApiRefByKeys = (...keys: readonly string[]): string =>
  `#/${keys.map((key) => encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`

/** The reference to the body of a webhook event. */
export const webhookBodyRef = (type: string): string =>
  openApiRefByKeys('webhooks', type, 'post', 'requestBody', 'content', 'application/json', 'schema')

import { parse, print } from "@swc/core";

/**
 * Writes a script another way that does the same, and of which a minifier leaves less.
 *
 * Functions without a `this` or `arguments` of their own become arrows. A declared function is there from the start of
 * its block on, so its arrow goes to that start. What is made with `new` stays a function.
 *
 * Functions with a `this` of their own become methods where they are an object's.
 *
 * Fields of classes that begin without a value go: until they are set they are undefined, with or without it.
 */
export async function smaller(code) {
  const script = await parse(code, { syntax: "ecmascript", target: "es2022" });
  const made = namesOfMade(script);
  const fits = (fn) => !fn.generator && !made.has(fn.identifier?.value) && !hasOwnThis(fn);
  walk(script, (node) => {
    if (node.type === "Module") node.body = arrowsFirst(node.body, fits);
    if (node.type === "BlockStatement") node.stmts = arrowsFirst(node.stmts, fits);
    if (node.type === "ClassDeclaration" || node.type === "ClassExpression")
      node.body = node.body.filter((member) => !isEmptyField(member));
    if (node.type === "ObjectExpression") node.properties = node.properties.map(asMethod);
    // A function that is a variable's value may be made with `new` under the variable's name.
    const named = made.has(node.id?.value ?? node.left?.value);
    for (const [key, value] of Object.entries(node))
      if (!named) node[key] = Array.isArray(value) ? value.map(turned) : turned(value);
  });
  return (await print(script)).code;

  /** A method that does without the word; what objects have is not made with `new`. */
  function asMethod(property) {
    const { type, key, value } = property;
    const turns = type === "KeyValueProperty" && isPlainFunction(value) && !fits(value);
    return turns ? { ...value, type: "MethodProperty", key } : property;
  }

  function turned(value) {
    // Arguments of a call stand in an object each.
    if (isPlainFunction(value?.expression))
      return { ...value, expression: turned(value.expression) };
    return isPlainFunction(value) && fits(value) ? inParentheses(arrowOf(value)) : value;
  }
}

function isPlainFunction(value) {
  return value?.type === "FunctionExpression" && !value.identifier && !value.generator;
}

/** The statements, with the functions among them that can be arrows as such, before all others. */
function arrowsFirst(statements, fits) {
  const isArrow = (each) => each.type === "FunctionDeclaration" && fits(each);
  const arrows = statements.filter(isArrow);
  if (arrows.length === 0) return statements;
  const declarations = arrows.map((fn) => ({
    type: "VariableDeclarator",
    span: fn.span,
    id: fn.identifier,
    init: arrowOf(fn),
    definite: false,
  }));
  const { span } = arrows[0];
  return [
    { type: "VariableDeclaration", span, ctxt: 0, kind: "let", declare: false, declarations },
    ...statements.filter((each) => !isArrow(each)),
  ];
}

function arrowOf({ span, params, body, async }) {
  return {
    type: "ArrowFunctionExpression",
    span,
    ctxt: 0,
    params: params.map(({ pat }) => pat),
    body,
    async,
    generator: false,
  };
}

function inParentheses(expression) {
  return { type: "ParenthesisExpression", span: expression.span, expression };
}

function isEmptyField({ type, value, isStatic }) {
  return type === "ClassProperty" && !value && !isStatic;
}

/** The names of what is made with `new`, or could be: it has a prototype that is used. */
function namesOfMade(script) {
  const names = new Set();
  walk(script, ({ type, callee, object, property, superClass, operator, right }) => {
    if (type === "NewExpression") names.add(callee.value);
    if (type === "MemberExpression" && property.value === "prototype") names.add(object.value);
    if (operator === "instanceof") names.add(right.value);
    names.add(superClass?.value);
  });
  names.delete(undefined);
  return names;
}

const HAS_ITS_OWN =
  /^(FunctionDeclaration|FunctionExpression|Class\w+|MethodProperty|GetterProperty|SetterProperty)$/;

/** Whether a function uses what an arrow would take from around it. */
function hasOwnThis({ params, body }) {
  let found = false;
  walk([params, body], ({ type, value, kind }) => {
    found ||= type === "ThisExpression" || kind === "new.target";
    found ||= type === "Identifier" && value === "arguments";
    return !HAS_ITS_OWN.test(type);
  });
  return found;
}

/** Visits all nodes, those inside only where the visitor does not say false. */
function walk(node, visit) {
  if (Array.isArray(node)) for (const each of node) walk(each, visit);
  else if (node && typeof node === "object") {
    if (node.type && visit(node) === false) return;
    for (const key in node) if (key !== "span") walk(node[key], visit);
  }
}

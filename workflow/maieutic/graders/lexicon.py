"""Words of other languages for what replies about solutions state: first, step, error, right, wrong, yes, no.

Replies to an English prompt are sometimes in the language of the student. Their words for these few notions are
replaced by English ones, so that one reader serves all languages. A text is translated only if it contains a word that
marks its language.
"""

from __future__ import annotations

import re
from functools import cache

from maieutic.graders.reading import DOTTED_I

# Words of each language by their English meaning. The words that mark the language stand first, before the bar. An
# underscore stands for a blank.
LEXICON: dict[str, dict[str, str]] = {
    "de": {
        "step": "schritt schritte schritten schritts zeile | ",
        "solution": "lösung lösungsweg rechnung | ",
        "first": "| erste erster ersten erstes zuerst",
        "error": "fehler denkfehler rechenfehler | ",
        "wrong": "falsch falsche falscher fehlerhaft | inkorrekt",
        "right": "richtig korrekt stimmt stimmen | ",
        "yes": "ja | ",
        "no": "nein | kein keine keinen keinem",
        "answer": "antwort | ",
        "not": "nicht | ",
        "is": "| ist sind liegt steckt",
        "all": "| alle alles",
        "the": "| die der das dem den",
        "and": "| und",
        "in": "| im",
        "but": "| aber",
        "so": "| also daher somit",
    },
    "fr": {
        "step": "étape étapes | ligne",
        "first": "première premier | ",
        "error": "erreur erreurs | faute",
        "wrong": "fausse faux incorrecte incorrectes | incorrect erroné erronée",
        "right": "correcte correctes exacte juste justes | exact",
        "yes": "oui | ",
        "no": "non | aucune aucun pas",
        "answer": "réponse | ",
        "right answer": "bonne_réponse réponse_correcte | ",
        "is": "| est sont",
        "all": "| toutes tout tous",
        "the": "| la le les l'",
        "and": "| et",
        "in": "| dans à",
        "so": "| donc",
    },
    "es": {
        "step": "paso pasos | ",
        "solution": "solución | ",
        "first": "primer primera primero | ",
        "error": "errores equivocación | ",
        "wrong": "incorrecta incorrecto incorrectos incorrectas equivocado | mal falsa falso",
        "right": "correcta correcto correctos correctas bien | ",
        "yes": "sí | si",
        "no": "ningún ninguna | ",
        "answer": "respuesta | ",
        "right answer": "respuesta_correcta solución_correcta | ",
        "is": "| es son está están",
        "all": "todos todas todo | ",
        "the": "| la el los las",
        "and": "| y",
        "in": "| en",
        "so": "| entonces",
    },
    "pt": {
        "step": "passo passos etapa | ",
        "solution": "solução | ",
        "first": "primeiro primeira | ",
        "error": "erro erros | ",
        "wrong": "errada errado incorreta incorreto | ",
        "right": "certa certo correta correto corretos corretas | ",
        "yes": "sim | ",
        "no": "não nenhum | ",
        "answer": "resposta | ",
        "right answer": "resposta_correta resposta_certa | ",
        "is": "| é são está estão",
        "all": "| todos todas tudo",
        "the": "| a o os as",
        "and": "| e",
        "in": "| em",
        "so": "| portanto",
    },
    "it": {
        "step": "passaggio passaggi | passo passi",
        "solution": "soluzione | ",
        "first": "primo prima | ",
        "error": "errore errori | ",
        "wrong": "sbagliata sbagliato errata errato | scorretta",
        "right": "corretta corretto corretti corrette giusta giusto giusti | ",
        "yes": "sì | si",
        "no": "nessun | ",
        "answer": "risposta | ",
        "right answer": "risposta_corretta risposta_giusta | ",
        "is": "| è sono",
        "all": "| tutti tutte tutto",
        "the": "| la il i le gli",
        "and": "| e",
        "in": "| nel nella",
        "so": "| quindi",
    },
    "nl": {
        "step": "stap stappen | ",
        "solution": "oplossing | ",
        "first": "eerste | ",
        "error": "fout fouten | ",
        "wrong": "foute | onjuist",
        "right": "juist klopt kloppen | goed correct",
        "yes": "| ja",
        "no": "nee geen | ",
        "answer": "antwoord | ",
        "is": "| zit zijn",
        "the": "| de het",
        "and": "| en",
        "so": "| dus",
    },
    "ru": {
        "step": "шаг шага шаге шагу шагом шаги шагов шагах | ",
        "solution": "решение решении | ",
        "first": "первая первый первую первой | ",
        "error": "ошибка ошибки ошибку ошибок | ",
        "wrong": "неверно неверное неверен неверный неправильно неправильное неправильный | ",
        "right": "верно верное верен верны правильно правильное правильный правильны | ",
        "yes": "да | ",
        "no": "нет | ",
        "answer": "ответ | ",
        "in": "| в",
        "all": "| все всё",
        "and": "| и",
        "not": "| не",
        "so": "| значит поэтому",
    },
    "tr": {
        "step": "adım adımda adımdır adımı | ",
        "solution": "çözüm çözümü | ",
        "first": "| ilk",
        "error": "hata hatalı | ",
        "wrong": "yanlış | ",
        "right": "doğru | ",
        "yes": "evet | ",
        "no": "hayır | ",
        "answer": "cevap yanıt | ",
    },
    "pl": {
        "step": "krok kroku kroki | ",
        "solution": "rozwiązanie | ",
        "first": "pierwszy pierwsza | ",
        "error": "błąd błędu błędny | ",
        "wrong": "niepoprawne błędne nieprawidłowe | ",
        "right": "poprawne prawidłowe | ",
        "yes": "tak | ",
        "no": "nie | ",
        "answer": "odpowiedź | ",
        "is": "| jest są",
        "in": "| w",
        "and": "| i",
    },
    "sv": {
        "step": "steg steget trin skritt | ",
        "solution": "lösningen lösning løsningen | ",
        "first": "| första første",
        "error": "felet fejl feil | fel",
        "wrong": "felaktig | forkert galt",
        "right": "rätt riktig | korrekt rigtig",
        "yes": "| ja",
        "no": "nej | nei inga inget",
        "answer": "svar svaret | ",
        "is": "| är er",
        "in": "| i",
        "the": "| det",
    },
    "zh": {
        " step ": "步骤 步 | ",
        " solution ": "解答 解法 解题 | ",
        " first ": "第一个 第一处 首个 最早 | ",
        " error ": "错误 错 出错 | ",
        " wrong ": "不正确 不对 是错的 | ",
        " right ": "正确 没有错误 没错 | 对",
        " yes ": "是的 | 是",
        " no ": "没有 不是 | 否",
        " answer ": "答案 | ",
        " all ": "所有 全部 | ",
        " in ": "| 在",
        ". ": "| 。",
        ", ": "| ，",
    },
    "ja": {
        " step ": "ステップ 手順 | ",
        " solution ": "解答 解き方 | ",
        " first ": "最初の はじめの | ",
        " error ": "間違い 誤り ミス | ",
        " wrong ": "間違って 誤って 不正解 | ",
        " right ": "正しい 正解 合って | ",
        " yes ": "はい | ",
        " no ": "いいえ | ",
        " answer ": "答え | ",
        " all ": "すべて 全て | ",
        " is ": "| は",
        " ": "| です",
        ". ": "| 。",
        ", ": "| 、",
    },
    "ko": {
        " step ": "단계 | ",
        " solution ": "풀이 | ",
        " first ": "첫 번째 첫번째 | ",
        " error ": "오류 실수 | ",
        " wrong ": "틀렸 틀린 잘못 | ",
        " right ": "맞습니다 맞아요 올바 정답 | ",
        " yes ": "네 예 | ",
        " no ": "아니요 아니오 | ",
        " answer ": "정답 답 | ",
    },
}
ENGLISH = "en"  # ISO 639-1, as the other languages
# Languages that write 1.200,5 for 1,200.5.
DECIMAL_COMMA = frozenset({*LEXICON, "da", "nb", "no", "fi", "cs", "sk", "hu", "ro", "el", "id", "vi", "uk"}) - {
    "zh",
    "ja",
    "ko",
}
COMMA_NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+,\d+)(?![.,]?\d)")
UNSPACED = frozenset({"zh", "ja", "ko"})  # languages without blanks between words
ENGLISH_WORDS = re.compile(r"\b(?:the|is|are|of|and|to|this)\b", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]{2,}")
FEWEST_WORDS, LEAST_ENGLISH = 5, 0.05  # a shorter text may be in any language
MOST_ENGLISH = 3  # a text with more English function words is English
# "4. step" and "第 4 step" name step 4.
NUMBER_FIRST = re.compile(r"(?:第\s*)?(?<![\d.,])(\d{1,2})\s?(?:[.]|-?(?:й|го|м))?\s*step\b(?!\s*\d)")


@cache
def words_of(language: str) -> tuple[dict[str, str], re.Pattern[str], re.Pattern[str]]:
    """Return a language's words with their English meaning, and patterns of its marking words and of all its words."""
    meaning: dict[str, str] = {}
    marking: list[str] = []
    for english, words in LEXICON[language].items():
        signs, further = ([word.replace("_", " ") for word in part.split()] for part in words.split("|"))
        marking += signs
        meaning |= dict.fromkeys([*signs, *further], english)
    meaning = {word.translate(DOTTED_I): english for word, english in meaning.items()}
    marking = [word.translate(DOTTED_I) for word in marking]

    def pattern(words: list[str]) -> re.Pattern[str]:
        longest_first = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
        return re.compile(
            longest_first if language in UNSPACED else rf"(?<!\w)(?:{longest_first})(?!\w)", re.IGNORECASE
        )

    return meaning, pattern(marking), pattern(list(meaning))


def in_english(text: str) -> str:
    """Replace the words of a reply in another language that name steps, errors and verdicts by English words."""
    if text.isascii() and not any(
        words_of(language)[1].search(text) for language in LEXICON if language not in UNSPACED
    ):
        return text
    counts = {language: len(words_of(language)[1].findall(text)) for language in LEXICON}
    language = max(counts, key=lambda name: counts[name])
    if not counts[language]:
        return text
    meaning, marking, words = words_of(language)
    if len(ENGLISH_WORDS.findall(text)) > MOST_ENGLISH:  # a foreign label in an English reply
        words = marking
    translated = words.sub(lambda match: meaning.get(match[0].lower(), match[0]), text.replace("\u2019", "'"))
    return NUMBER_FIRST.sub(r"step \1", translated)


def is_english(text: str) -> bool:
    """Return True unless a text has several words and hardly any English function words."""
    words = WORD.findall(text)
    return len(words) < FEWEST_WORDS or len(ENGLISH_WORDS.findall(text)) >= LEAST_ENGLISH * len(words)


def in_english_notation(text: str, language: str) -> str:
    """Return a text with its numbers in English notation: 1.200,5 in German is 1200.5.

    language: the text's language (ISO 639-1). A text with several words that are plainly English is left alone.
    """
    if language not in DECIMAL_COMMA or (len(WORD.findall(text)) >= FEWEST_WORDS and is_english(text)):
        return text
    return COMMA_NUMBER.sub(lambda number: number[0].replace(".", "").replace(",", "."), text)
